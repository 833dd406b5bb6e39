"""Each public name of gevent and eventlet (``names.json``, by ``record_names.py``) is here, or its use says the way."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

from dhaga.compat._absent import ABSENT, REFUSED, AbsentError, Refused
from tests.kit.scripts import prints

pytestmark = pytest.mark.once  # the names were recorded on the main Python

RECORD = {
    package.split()[0]: modules
    for package, modules in json.loads(Path(__file__).with_name("names.json").read_text()).items()
}
LEFT_OUT = {
    "eventlet.green.builtin": "its __all__ has the methods of a dict as well",
    "eventlet.green.select": "one inner function, of what is the face of all programs here",
    "gevent.threading": "one inner function, which has an underscore elsewhere",
}
"""Modules some of whose recorded names nobody means."""

LOOK = """
    import sys
    sys.path.insert(0, "tests/compat")
    import json, warnings
    from importlib import import_module
    import dhaga.compat
    from dhaga.compat._absent import AbsentError, Refused
    warnings.simplefilter("ignore")
    dhaga.compat.install("{package}")
    for package, modules in json.load(open("tests/compat/names.json")).items():
        for module, names in modules.items() if package.startswith("{package} ") else ():
            try:
                found = import_module(module)
            except AbsentError:
                print("absent", module)
                continue
            for name in names[""].split():
                kind = "refused" if isinstance(getattr(found, name, None), Refused) else "here"
                print(kind if hasattr(found, name) else "MISSING", f"{{module}}.{{name}}")
"""


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_each_public_name_is_here_or_says_the_way(package: str) -> None:
    said = dict(reversed(line.split()) for line in prints(LOOK.format(package=package)))
    missing = {name for name, kind in said.items() if kind == "MISSING"}
    assert {name for name in missing if name.rpartition(".")[0] not in LEFT_OUT} == set()
    assert len([name for name, kind in said.items() if kind == "here"]) > 400
    # Nothing is refused that the original does not have, or that is here.
    absent = {name for name, kind in said.items() if kind == "absent"}
    recorded = set(RECORD[package])
    assert absent == {each for each in recorded if any(each == name or each.startswith(f"{name}.") for name in ABSENT)}
    refused = {
        f"{module}.{name}" for module, ways in REFUSED.items() for names in ways.values() for name in names.split()
    }
    assert {name for name in refused if name.startswith(f"{package}.")} == {
        name for name, kind in said.items() if kind == "refused"
    }


def test_an_absent_module_says_the_way_at_its_import() -> None:
    code = """
    import dhaga.compat
    dhaga.compat.install("gevent")
    try:
        import gevent.resolver.ares
    except NotImplementedError as error:
        print(isinstance(error, ImportError), error.name, "dhaga.socket.getaddrinfo" in str(error))
    """
    assert prints(code) == ["True gevent.resolver True"]


def test_a_refused_name_says_the_way_at_its_use() -> None:
    name = Refused("gevent.config", "there is one loop")
    for use in (
        lambda: name(),
        lambda: name.loop,
        lambda: setattr(name, "resolver", "ares"),
        lambda: types.new_class("Mine", (name,)),
        lambda: list(name),
    ):
        with pytest.raises(NotImplementedError, match=r"there is no gevent\.config here: there is one loop"):
            use()
    assert not hasattr(name, "__wrapped__") and "there is one loop" in repr(name)
    assert issubclass(AbsentError, ImportError)
