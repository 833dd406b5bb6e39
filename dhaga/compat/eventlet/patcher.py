"""``eventlet.patcher``: functions that patch the standard library, for all modules or for one module.

A patch for all modules always replaces all names in Dhaga's table.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from ... import monkey

__all__ = ["import_patched", "inject", "is_monkey_patched", "monkey_patch", "original"]

SWITCHES = frozenset({"os", "select", "socket", "thread", "time", "psycopg", "MySQLdb", "builtins", "subprocess"})
MODULES = {"threading": "thread", "_thread": "thread", "queue": "thread", "Queue": "thread", "ssl": "socket"}
"""Modules whose names are not arguments of ``monkey_patch``, each with the argument that selects the module."""

already_patched: dict[str, bool] = {}


def monkey_patch(**on: Any) -> None:
    """Patch the standard library with ``dhaga.monkey.patch``, unless the arguments turn off every module.

    Apart from that, the arguments only set the results of ``is_monkey_patched``. Parks: never. Raises: TypeError for an
    unknown name; ``dhaga.monkey.PatchError`` if it is too late to patch.
    """
    if "__builtin__" in on:
        on["builtins"] = on.pop("__builtin__")
    all_on = on.pop("all", None)
    for name in on:
        if name not in SWITCHES:
            raise TypeError(f"monkey_patch() got an unexpected keyword argument {name!r}")
    if all_on is None:
        all_on = True not in on.values()
    wanted = {name for name in SWITCHES if on.get(name, all_on and name not in ("MySQLdb", "builtins"))}
    if wanted:
        monkey.patch()
        already_patched.update(dict.fromkeys(wanted, True))


def is_monkey_patched(module: ModuleType | str) -> bool:
    """Return whether the patch of a module was requested and is active."""
    name = module if isinstance(module, str) else module.__name__
    return monkey.is_patched() and already_patched.get(MODULES.get(name, name), False)


def import_patched(module_name: str, *additional_modules: Any, **more: Any) -> ModuleType:
    """Return a private copy of a module. Its imports are private, and its waits park. Raises: ImportError."""
    return inject(module_name, None, *additional_modules, *more.items())


def inject(module_name: str, new_globals: dict[str, Any] | None, *additional_modules: Any) -> ModuleType:
    """Import like ``import_patched``, and copy the module's names into a namespace."""
    if additional_modules:
        raise NotImplementedError(
            "which modules a private copy sees is Dhaga's to choose:\nleave additional_modules out, or import by "
            "dhaga.monkey.patched_imports(name)"
        )
    module = monkey.patched_imports(module_name.partition(".")[0]).import_module(module_name)
    if new_globals is not None:
        left_out = {"__builtins__", "__file__", "__name__"}
        new_globals.update({key: value for key, value in vars(module).items() if key not in left_out})
    return module


class OriginalModule(ModuleType):
    """A standard module with the names that it had before the patch."""

    def __getattr__(self, name: str) -> Any:
        return monkey.original(self.__name__, name)

    def __dir__(self) -> list[str]:
        return dir(sys.modules[self.__name__])


def original(modname: str) -> ModuleType:
    """Return an unpatched standard module, whose waits block all greenthreads. Raises: ImportError."""
    module = import_module(modname)
    return OriginalModule(modname, module.__doc__) if monkey.is_patched() else module


def patch_function(func: Any, *additional_modules: Any) -> Any:
    """Raise NotImplementedError, because a single function cannot be patched."""
    raise NotImplementedError("import what the function needs by dhaga.monkey.patched_imports(name), or patch() it all")
