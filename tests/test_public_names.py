"""The public names of what a user holds in her hands: what completing ``d.`` shows, and no more."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import dhaga
from dhaga.pool import Pool
from dhaga.testing import virtual_clock

NAMES = {
    "Dhaga": {
        *("name", "ident", "daemon", "state", "reason", "priority", "scheduler"),
        *("is_alive", "join", "result", "cancel", "wake"),
    },
    "Scheduler": {"name", "thread", "loop", "ioloop", "start", "stop", "spawn"},
    "Scope": {"name", "timeout", "spawn", "cancel", "cancel_called", "cancelled_caught", "expired"},
    "Pool": {"name", "submit", "map", "imap_unordered", "shutdown"},
}
"""By class; ``dir()`` of an object is compared with it."""
NAMES["Child"] = NAMES["Dhaga"]


def public(thing: Any) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def an_object_of_each() -> dict[str, Any]:
    with virtual_clock(), dhaga.Scope() as scope:
        child, d = scope.spawn(int), dhaga.spawn(int)
        d.join()
    with Pool(threads=1, dhagas=1) as pool:
        return {"Dhaga": d, "Child": child, "Scheduler": d.scheduler, "Scope": scope, "Pool": pool}


@pytest.mark.parametrize("name", ["Dhaga", "Scheduler", "Child", "Scope", "Pool"])
def test_an_object_shows_its_public_names_and_no_others(name: str) -> None:
    assert public(an_object_of_each()[name]) == NAMES[name]


def test_the_package_shows_what_a_user_may_call() -> None:
    code = "import dhaga; print(*(name for name in dir(dhaga) if name not in dhaga.__all__))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == sorted({"__version__", "open"} | dhaga.SUBMODULES)
