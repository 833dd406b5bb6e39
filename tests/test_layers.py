"""The districts of the package: which may import which, and that no file leads back to itself."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dhaga"

FACES = (
    *("asyncio", "futures", "io", "os", "queue", "select", "selectors", "signal", "socket", "ssl", "subprocess"),
    *("thread", "threading", "time"),
)
"""Modules that bear the name and keep the contract of one of the standard library."""

BASE = frozenset({"_kernel", "_structured", "_sync", "_workers", "_iowait"})

ALLOWED: dict[str, frozenset[str]] = {
    "_kernel": frozenset(),
    "_structured": frozenset({"_kernel"}),
    "_sync": frozenset({"_kernel", "_structured"}),
    "_workers": frozenset({"_kernel", "_structured", "_sync"}),
    "_iowait": frozenset({"_kernel", "_structured", "_sync", "_workers"}),
    "metrics": frozenset({"_kernel"}),
    "aio": BASE,
    "pool": BASE,
    "faces": BASE | {"pool"},
    "stream": BASE | {"faces", "aio"},
    "monkey": BASE | {"faces"},
    "servers": BASE | {"faces", "aio"},
    "debug": BASE,
    "http": BASE | {"faces", "aio", "servers"},
    "integrations": BASE | {"faces", "aio", "monkey", "pool", "servers", "debug"},
    "compat": BASE | {"faces", "aio", "monkey", "debug", "http"},
    "simulation": BASE | {"faces", "monkey", "debug"},
    "_cli": BASE | {"faces", "monkey", "servers", "debug", "http", "compat", "simulation", "dhaga"},
    "testing": frozenset({"_kernel"}),
    "pytest_plugin": frozenset({"_kernel", "debug", "simulation", "testing"}),
    "dhaga": BASE | {"aio", "debug", "integrations"},
    "__main__": frozenset({"_cli", "_kernel"}),
}
"""What each district may import, besides itself. ``dhaga`` is the package's own face."""

ROOMS: dict[str, frozenset[str]] = {
    "_kernel.platform": frozenset(),
    "_kernel": frozenset({"_kernel.platform"}),
    "_kernel.fast": frozenset({"_kernel"}),
    "_kernel.wait": frozenset({"_kernel", "_kernel.fast"}),
    "_kernel.run": frozenset({"_kernel", "_kernel.platform", "_kernel.fast", "_kernel.wait"}),
    "_kernel.process": frozenset({"_kernel", "_kernel.platform", "_kernel.fast", "_kernel.wait", "_kernel.run"}),
    "_kernel.api": frozenset({"_kernel", "_kernel.wait", "_kernel.run", "_kernel.process"}),
    "simulation._base": frozenset(),
    "simulation._schedule": frozenset({"simulation._base"}),
    "simulation.disk": frozenset({"simulation._base"}),
    "simulation.network": frozenset({"simulation._base", "simulation._schedule", "simulation.disk"}),
    "simulation._standard": frozenset(
        {"simulation._base", "simulation._schedule", "simulation.disk", "simulation.network"}
    ),
    "simulation._world": frozenset(
        {"simulation._base", "simulation._schedule", "simulation.disk", "simulation.network", "simulation._standard"}
    ),
    "simulation._search": frozenset(
        {
            *("simulation._base", "simulation._schedule", "simulation.disk", "simulation.network"),
            *("simulation._standard", "simulation._world"),
        }
    ),
    "simulation._history": frozenset(),
}
"""What each room of the kernel and of the simulation may import of its district, besides itself. The kernel's files in
no room are tools, but for ``FRONT``.
"""

FRONT = ("_kernel", "_kernel.api", "_kernel.timeout", "_kernel.spawn_later")
"""On top of the rooms."""

NAMED_FROM_BELOW = {
    "monkey._post_import": "the hooks that packages get as they are imported: nothing else needs them",
}
"""Modules that name one of a higher district in a string, and why."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
    if path.parent.name != "_pytest_entry"  # installed beside the package
}

PRIVATE_READ: dict[str, frozenset[str]] = {
    "_iowait": frozenset({"_holder", "_waiters"}),
    "_kernel": frozenset({"_at_fork_reinit", "_hand_over_if_free", "_holder", "_is_owned", "_take_back_from_"}),
    "_structured": frozenset({"_error", "_value"}),
    "_sync": frozenset({"_condition", "_error", "_state", "_wake_joiners"}),
    "_workers": frozenset({"_error"}),
    "compat": frozenset({"_free", "_hand_out_permits_", "_items_", "_joiners", "_take_back_", "_trace", "_waiters_"}),
    "faces": frozenset(
        {"_cancel_unbegun", "_done_callbacks", "_free", "_joiners", "_stand_in", "_value", "_waiters", "_workers"},
    ),
    "integrations": frozenset({"_call_future", "_sleep"}),
    "monkey": frozenset({"_at_fork_reinit", "_initial_value", "_is_owned", "_lock"}),
    "pool": frozenset({"_cancel_unbegun"}),
    "testing": frozenset({"_expire"}),
}
"""Private attributes that a district reads although another one defines them. Nothing is to be added here: what other
districts use has no underscore, and a docstring. Those of ``monkey``, and two of an RLock in ``_kernel``, are the
standard's own.
"""

RECORDS = frozenset({"_kernel.hooks", "_kernel.outside"})
"""Modules whose names other districts set: that is what they are for."""

SET_ELSEWHERE: dict[str, frozenset[str]] = {
    "aio": frozenset(
        {"_kernel.run.microthread.Dhaga.__sqlalchemy_greenlet_provider__", "_kernel.run.microthread.Dhaga.parent"}
    ),
    "compat": frozenset({"select.immediate.yield_at_each", "socket.socket._sock", "socket.socket.fd"}),
    "faces": frozenset({"_kernel.wait.current.this_thread.loop_may_block"}),
    "integrations": frozenset({"select.immediate.in_a_row"}),
    "monkey": frozenset(
        {"_kernel.process.process_exit.threads_are_dhagas", "_sync.lock.RLock.__module__", "socket.socket.__repr__"}
    ),
    "pytest_plugin": frozenset({"testing.seed"}),
}
"""What a district sets of another one's modules, classes and objects. Nothing is to be added here: what others may set
is a hook or a door.
"""

LONGEST = 420
"""The most lines of a module."""

STANDARD_OBJECTS = frozenset({"_thread", "pool.workers.guard", "standard"})
"""Modules and objects of the standard library whose private attributes have the names of ours by chance."""

DOTTED = re.compile(r"dhaga((?:\.\w+)+)(?::.*)?")


def district_of(name: str) -> str:
    first = name.partition(".")[0]
    return "dhaga" if first in ("", "_counterparts") else "faces" if first in FACES else first


@functools.cache
def imports_of(name: str, types: bool = False) -> frozenset[str]:
    """Return the modules that a module imports when it runs, lazily or not; ``types``: and those for type checkers."""
    tree = ast.parse(MODULES[name].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            node.body = []
    package = name.split(".") if MODULES[name].name == "__init__.py" and name else name.split(".")[:-1]
    found = {module for node in ast.walk(tree) for module in modules_in(node, package)}
    return frozenset((found & MODULES.keys()) - {name} - parents(name))


def modules_in(node: ast.AST, package: list[str]) -> Iterator[str]:
    """Give the modules that one import statement means, or a module that a string names."""
    if isinstance(node, ast.ImportFrom):
        if node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
        elif (node.module or "").split(".")[0] == "dhaga":
            base = (node.module or "").split(".")[1:]
        else:
            return
        for alias in node.names:
            inner = ".".join([*base, alias.name])
            yield inner if inner in MODULES else ".".join(base)
    elif isinstance(node, ast.Import):
        yield from (a.name.removeprefix("dhaga.") for a in node.names if a.name.startswith("dhaga."))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and (dotted := DOTTED.fullmatch(node.value)):
        yield dotted[1][1:]


def parents(name: str) -> set[str]:
    """Return the packages that a module is in: importing it imports them, whatever it says."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(len(parts))}


def test_every_district_is_in_the_table() -> None:
    assert {district_of(name) for name in MODULES} == set(ALLOWED)


@pytest.mark.long("parses every file of the package")
def test_a_module_imports_only_from_the_districts_that_its_own_may() -> None:
    beyond = {}
    for name in MODULES.keys() - NAMED_FROM_BELOW.keys():
        own = district_of(name)
        types = name != ""  # the package's own face names all public modules for type checkers
        beyond[name] = {each for each in imports_of(name, types) if district_of(each) not in ALLOWED[own] | {own}}
    assert {name: modules for name, modules in beyond.items() if modules} == {}


def room_of(name: str) -> str:
    """Return the room that a module is in; "" of a district without rooms."""
    rooms = (room for room in ROOMS if f"{name}.".startswith(f"{room}."))
    return "_kernel.api" if name in FRONT else max(rooms, key=len, default="")


IN_ROOMS = [name for name in MODULES if room_of(name)]


def rooms_used(name: str) -> set[str]:
    """Return the other rooms of its district that a module imports from."""
    return {room_of(each) for each in imports_of(name) if district_of(each) == district_of(name)} - {room_of(name)}


def test_a_module_imports_only_from_the_rooms_that_its_own_may() -> None:
    beyond = {name: rooms_used(name) - ROOMS[room_of(name)] for name in IN_ROOMS}
    assert {name: rooms for name, rooms in beyond.items() if rooms} == {}


def test_the_rooms_allow_no_more_than_is_used() -> None:
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for name in IN_ROOMS:
        used[room_of(name)] |= rooms_used(name)
    assert {room: allowed - used[room] for room, allowed in ROOMS.items() if allowed - used[room]} == {}


def test_what_is_named_from_below_is_still_so() -> None:
    for name in NAMED_FROM_BELOW:
        assert any(district_of(each) not in ALLOWED[district_of(name)] for each in imports_of(name))


@pytest.mark.long("parses every file of the package")
def test_the_table_allows_no_more_than_is_used() -> None:
    used: dict[str, set[str]] = {district: set() for district in ALLOWED}
    for name in MODULES:
        used[district_of(name)] |= {district_of(each) for each in imports_of(name)}
    assert {d: allowed - used[d] for d, allowed in ALLOWED.items() if allowed - BASE - used[d]} == {}


def test_no_file_leads_back_to_itself() -> None:
    graph = {name: imports_of(name) for name in MODULES if name not in NAMED_FROM_BELOW}
    TopologicalSorter(graph).prepare()


def test_nothing_imports_the_testing_room_but_the_pytest_plugin_and_nothing_that() -> None:
    assert [name for name in MODULES if {"testing", "pytest_plugin"} & imports_of(name)] == ["pytest_plugin"]


def test_the_top_of_the_package_reads_as_a_map() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 22


def test_what_is_private_is_underscored_and_a_face_is_short() -> None:
    for name, path in MODULES.items():
        if path.name == "__init__.py" and name:
            private = any(part.startswith("_") for part in name.split("."))
            assert len(path.read_text().splitlines()) <= (4 if private else 40), name


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def test_there_is_no_star_import() -> None:
    assert not [name for name, path in MODULES.items() if "import *" in path.read_text()]


# ---- attributes


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def private_attributes_defined(tree: ast.AST) -> set[str]:
    """Return the private names of methods, class attributes and slots, and what functions assign to ``self``."""
    found: set[object] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.add(each.name)
                elif isinstance(each, ast.AnnAssign):
                    found.add(ast.unparse(each.target))
                elif isinstance(each, ast.Assign):
                    names = [ast.unparse(target) for target in each.targets]
                    slots = [c.value for c in ast.walk(each.value) if isinstance(c, ast.Constant)]
                    found.update(slots if names == ["__slots__"] else names)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
    return {name for name in found if isinstance(name, str) and is_private(name)}


def private_attributes_read(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Give each private attribute that is used, and of what; ``self`` and ``super()`` inherit theirs."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            of = ast.unparse(node.value)
            if of not in ("self", "cls", "super()"):
                yield node.attr, of
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr"):
            of, name = node.args[:2]
            if isinstance(name, ast.Constant) and is_private(name.value):
                yield str(name.value), ast.unparse(of)


def foreign_private_reads() -> dict[str, set[str]]:
    """Return, by district, the private attributes that others define and it does not."""
    trees = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
    defined: dict[str, set[str]] = {}
    for name, tree in trees.items():
        defined.setdefault(district_of(name), set()).update(private_attributes_defined(tree))
    everywhere = set().union(*defined.values())
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        own = district_of(name)
        reads = {attribute for attribute, of in private_attributes_read(tree) if of not in STANDARD_OBJECTS}
        found.setdefault(own, set()).update(reads & everywhere - defined[own])
    return {district: names for district, names in found.items() if names}


@pytest.mark.long("parses every file of the package")
def test_no_district_reads_a_private_attribute_of_another() -> None:
    assert foreign_private_reads() == PRIVATE_READ


def test_a_private_attribute_of_another_district_would_be_found() -> None:
    tree = ast.parse(
        "class A:\n    __slots__ = ('_a',)\n    _b: int\n    def _c(self): self._d = x._e = getattr(y, '_f')"
    )
    assert private_attributes_defined(tree) == {"_a", "_b", "_c", "_d"}
    assert set(private_attributes_read(tree)) == {("_e", "x"), ("_f", "y")}


# ---- what a district sets of another


def owners_in(name: str, tree: ast.AST) -> dict[str, str]:
    """Return the names that a module has for modules, classes and objects of other districts, each with its origin."""
    package = name.split(".") if MODULES[name].name == "__init__.py" and name else name.split(".")[:-1]
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias, module in zip(node.names, modules_in(node, package), strict=False):
                if district_of(module) != district_of(name) and module not in RECORDS:
                    is_module = (module in MODULES and module.rpartition(".")[2] == alias.name) and (
                        node.module is None or node.module.rpartition(".")[2] != alias.name
                    )
                    found[alias.asname or alias.name] = module if is_module else f"{module}.{alias.name}"
    for node in ast.walk(tree):  # a second name, for type checkers: ``names: Any = ours``
        if isinstance(node, ast.AnnAssign) and node.value is not None and (dotted := ast.unparse(node.value)) in found:
            found[ast.unparse(node.target)] = found[dotted]
    return found


def attributes_set(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Give each attribute that is set or deleted, and of what: by a statement, by ``setattr``, in a log."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call):
            called, *arguments = map(ast.unparse, (node.func, *node.args))
            if arguments and arguments[0] in ("setattr", "delattr"):  # to be called later
                called, *arguments = arguments
            is_log = called.endswith(".set") and len(arguments) == 3
            if is_log or (called in ("setattr", "delattr") and len(arguments) > 1):
                yield arguments[0], arguments[1].strip("'")


def foreign_attributes_set(name: str, tree: ast.AST) -> set[str]:
    """Return what a module sets of the modules, classes and objects of other districts."""
    owners = owners_in(name, tree)
    split = [(*of.partition("."), attribute) for of, attribute in attributes_set(tree)]
    return {f"{owners[first]}{dot}{rest}.{attribute}" for first, dot, rest, attribute in split if first in owners}


@pytest.mark.long("parses every file of the package")
def test_no_district_sets_an_attribute_of_another() -> None:
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        found.setdefault(district_of(name), set()).update(foreign_attributes_set(name, ast.parse(path.read_text())))
    assert {district: names for district, names in found.items() if names} == SET_ELSEWHERE


def test_an_attribute_that_is_set_of_another_district_would_be_found() -> None:
    tree = ast.parse(
        "from ... import socket as ours\nfrom ...socket import socket\nfrom ..._kernel import hooks, originals\n"
        "from . import _names\nnames: Any = ours\nnames.a = hooks.b = _names.c = 1\nsetattr(ours.socket, 'd', 2)\n"
        "log.set(socket, 'e', 3)\nundoing.callback(setattr, originals, 'f', 4)\ndel socket.g\n"
    )
    found = foreign_attributes_set("simulation._standard.standard", tree)
    assert found == {"socket.a", "socket.socket.d", "socket.socket.e", "_kernel.originals.f", "socket.socket.g"}
