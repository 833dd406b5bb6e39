"""Write ``names.json``: the public modules of gevent and eventlet, the names in each, and those of their classes.

``python tests/compat/record_names.py``, by the Python of an environment that has both: ``make peers`` makes one.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

FILE = Path(__file__).with_name("names.json")
TESTS = {"gevent.testing", "gevent.tests"}


def modules(package: str) -> dict[str, ModuleType]:
    """Return the modules that are public, and that can be imported on this machine, by name."""
    found = {package: import_module(package)}
    for info in pkgutil.iter_modules(found[package].__path__, f"{package}."):
        if info.name.rpartition(".")[2].startswith("_") or info.name in TESTS:
            continue
        try:
            found |= modules(info.name) if info.ispkg else {info.name: import_module(info.name)}
        except Exception as error:
            print(f"left out: {info.name}, {error!r}")
    return found


def names(module: ModuleType) -> list[str]:
    """Return the public names of a module: those of its ``__all__``, else what it does not have from elsewhere."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(module).items() if is_own(value, module.__name__)]
    return sorted({name for name in listed if not name.startswith("_") and hasattr(module, name)})


def classes(module: ModuleType) -> dict[str, list[str]]:
    """Return the public classes that a module has of its package, each with the public names of its objects."""
    package = module.__name__.partition(".")[0]
    found = {name: getattr(module, name) for name in names(module)}
    return {
        name: attributes(kind, package)
        for name, kind in found.items()
        if inspect.isclass(kind) and kind.__module__.partition(".")[0] == package
    }


def attributes(kind: type, package: str) -> list[str]:
    """Return the public names that a class, or a base of its package, defines."""
    own = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == package]
    return sorted({name for base in own for name in vars(base) if not name.startswith("_")})


def is_own(value: object, module: str) -> bool:
    if inspect.ismodule(value):
        return False
    return getattr(value, "__module__", module) == module and not isinstance(value, bool | None)


def main() -> None:
    warnings.simplefilter("ignore")
    record = {
        f"{package} {version(package)}": {
            name: {"": " ".join(names(module))} | {kind: " ".join(own) for kind, own in classes(module).items() if own}
            for name, module in sorted(modules(package).items())
        }
        for package in ("gevent", "eventlet")
    }
    FILE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
