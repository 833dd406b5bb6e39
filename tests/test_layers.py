"""The districts of the package: which may import which, and that no file leads back to itself."""

from __future__ import annotations

import ast
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
    "faces": BASE,
    "pool": BASE | {"faces"},
    "stream": BASE | {"faces", "aio"},
    "monkey": BASE | {"faces"},
    "servers": BASE | {"faces", "aio"},
    "debug": BASE,
    "http": BASE | {"faces", "aio", "stream", "servers"},
    "integrations": BASE | {"faces", "aio", "monkey", "pool", "servers", "debug"},
    "compat": BASE | {"faces", "aio", "monkey", "debug", "http"},
    "_cli": BASE | {"faces", "monkey", "servers", "debug", "http", "compat", "dhaga"},
    "testing": frozenset({"_kernel"}),
    "pytest_plugin": frozenset({"_kernel", "debug", "testing"}),
    "dhaga": BASE | {"aio", "debug", "integrations"},
    "__main__": frozenset({"_cli"}),
}
"""What each district may import, besides itself. ``dhaga`` is the package's own face."""

NAMED_FROM_BELOW = {
    "monkey._post_import": "the hooks that packages get as they are imported: nothing else needs them",
}
"""Modules that name one of a higher district in a string, and why."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
    if path.parent.name != "_pytest_entry"  # installed beside the package
}

DOTTED = re.compile(r"dhaga((?:\.\w+)+)(?::.*)?")


def district_of(name: str) -> str:
    first = name.partition(".")[0]
    return "dhaga" if first in ("", "_counterparts") else "faces" if first in FACES else first


def imports_of(name: str) -> set[str]:
    """Return the modules that a module imports when it runs, lazily or not; what is for the types does not count."""
    tree = ast.parse(MODULES[name].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    package = name.split(".") if MODULES[name].name == "__init__.py" and name else name.split(".")[:-1]
    found = {module for node in ast.walk(tree) for module in modules_in(node, package)}
    return (found & MODULES.keys()) - {name} - parents(name)


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


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_only_from_the_districts_that_its_own_may(name: str) -> None:
    own = district_of(name)
    beyond = {each for each in imports_of(name) if district_of(each) not in ALLOWED[own] | {own}}
    assert not beyond or name in NAMED_FROM_BELOW


def test_what_is_named_from_below_is_still_so() -> None:
    for name in NAMED_FROM_BELOW:
        assert any(district_of(each) not in ALLOWED[district_of(name)] for each in imports_of(name))


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


def test_there_is_no_star_import() -> None:
    assert not [name for name, path in MODULES.items() if "import *" in path.read_text()]
