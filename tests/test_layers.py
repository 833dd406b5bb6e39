"""The rooms of the house, from low to high. A module imports only from rooms below its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "dhaga"

KERNEL = (
    *("errors", "originals", "timers", "alarms", "priorities", "deadlock", "loop"),
    *("cancels", "waiter", "osthread", "sleeps", "waiting", "channel", "poller"),
    *("microthread", "lives", "scheduler", "graveyard", "summons", "interrupts", "exit", "callers", "fork", "api"),
)
DEBUG = (
    *("stacks", "holders", "origins", "helpers", "activities", "observers", "logs"),
    *("views", "hangs", "dump", "portraits", "delays", "stats", "trace", "watchdog"),
    *("interest", "shares", "recent", "crowds", "answers"),
    *("places", "desks", "inspector", "page", "signals", "switches"),
    *("asked", "dumps", "keys", "tables", "screens", "top"),
)
ROOMS = (
    *(f"kernel.{name}" for name in KERNEL),
    "kernel",
    *(
        "metrics",
        "scope",
        "races",
        "tasks",
        "aio",
        "haste",
        "calls",
        "offload",
        "local",
        "locks",
        "semaphores",
        "events",
        "simplequeue",
        "queue",
        "oldnames",
        "threading",
        "thread",
    ),
    *("resolve", "patience", "socket", "ssl", "gatherings", "select", "selectors", "asyncio", "time", "signal"),
    *("turns", "files"),
    *("parkers", "children", "descriptors", "io", "os", "subprocess", "semlock"),
    *("workers", "futures", "pool"),
    *("listeners", "servers", "services", "processes", "stream"),
    *(
        "http.limits",
        "http.heads",
        "http.messages",
        "http.bodies",
        "http.responses",
        "http.accesslog",
        "http.deadlines",
        "http.conversations",
        "http.wsgi",
    ),
    *("http.connections", "http.transfers", "http.client", "http.pools", "http.requests", "http"),
    "http.serve",
    *("integrations", "integrations.gunicorn", "integrations.psycopg", "integrations.psycopg2"),
    *("faces", "imports", "changes", "adoption", "lateness", "reprs", "arrivals", "monkey"),
    *(f"debug.{name}" for name in DEBUG),
    "debug",
    "integrations.prometheus",
    *(f"integrations.celery.{name}" for name in ("options", "drains", "jobs", "batches", "results")),
    "integrations.celery",
    "",
    "run",
    "__main__",
    "testing",
    "pytest_plugin",
)
"""Every module of the package, the package itself being the empty name."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").removesuffix("."): path
    for path in PACKAGE.rglob("*.py")
}


def imports_of(name: str) -> set[str]:
    """Return the modules that a module imports when it runs; what is for the types alone does not count."""
    tree = ast.parse(MODULES[name].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    here = name.split(".") if MODULES[name].name == "__init__.py" and name else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1] + (node.module.split(".") if node.module else [])
            found |= {".".join(base)} | {".".join([*base, alias.name]) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dhaga":
            found.add((node.module or "").removeprefix("dhaga").removeprefix("."))
        elif isinstance(node, ast.Import):
            found |= {
                a.name.removeprefix("dhaga").removeprefix(".") for a in node.names if a.name.split(".")[0] == "dhaga"
            }
    return {module for module in found if module in MODULES} - {name, "kernel", name.rpartition(".")[0] or name}


def test_the_table_names_every_room() -> None:
    assert sorted(MODULES) == sorted(ROOMS)


@pytest.mark.parametrize("name", ROOMS)
def test_a_module_imports_only_from_rooms_below(name: str) -> None:
    below = set(ROOMS[: ROOMS.index(name)])
    assert imports_of(name) <= below


def test_nobody_but_the_pytest_plugin_imports_the_testing_room_and_that_nobody() -> None:
    assert [name for name in ROOMS if {"testing", "pytest_plugin"} & imports_of(name)] == ["pytest_plugin"]


def test_there_is_no_star_import_and_no_underscored_file() -> None:
    assert not [name for name, path in MODULES.items() if "import *" in path.read_text()]
    assert not [path for path in MODULES.values() if path.name.startswith("_") and not path.name.startswith("__")]
