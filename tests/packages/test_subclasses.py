"""Classes of installed packages that derive from one that the patch replaces: each behaves as without the patch.

``python tests/packages/test_subclasses.py [--patched]`` prints what becomes of each, as a table.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
import sysconfig
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # as a program

from tests.kit.subclasses import Subclass, subclasses_below  # noqa: E402
from tests.monkey.test_standard_names import EXTRA  # noqa: E402

WITHOUT = frozenset(
    {"test", "tests", "testing", "gevent", "eventlet", "greenlet", "dhaga", "pip", "debugpy", "_vendor", "vendored"}
)
"""Folders left out: tests, other loops than ours, copies, and a debugger."""

OVERRIDES = {"celery/utils/timer2.py Timer cancel", "celery/utils/timer2.py Timer run"}
"""Names of ours that a subclass has as well, without harm: nothing of ours calls them."""

pytestmark = pytest.mark.once


def installed() -> list[tuple[str, Subclass]]:
    return list(subclasses_below(Path(sysconfig.get_path("purelib")), WITHOUT))


def test_no_subclass_of_a_package_has_a_name_of_ours() -> None:
    clashes = set()
    for path, each in installed():
        kind = each.base.rpartition(".")[2]
        clashes |= {f"{path} {each.name} {name}" for name in each.own & EXTRA.get(kind, set())}
    assert clashes <= OVERRIDES


@pytest.mark.long("imports a hundred modules of packages, twice")
def test_a_subclass_of_a_package_behaves_as_without_the_patch() -> None:
    plain, patched = outcomes(), outcomes("--patched")
    assert len(plain) > 20
    assert patched == plain


def outcomes(*arguments: str) -> dict[str, str]:
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def attempt(path: str, each: Subclass) -> str:
    """Return what becomes of a subclass: how it is made without arguments, and how it works then."""
    try:
        kind = getattr(
            importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")), each.name
        )
    except BaseException as error:
        return f"import: {type(error).__name__}"
    try:
        made = kind()
    except BaseException as error:
        return f"made: {type(error).__name__}"
    try:
        return f"works: {use(made, each)}"
    except BaseException as error:
        return f"used: {type(error).__name__}: {error}"


def use(made: Any, each: Subclass) -> object:
    """Use it by the contract of its base. Returns: what a caller sees."""
    if each.base in ("threading.Thread", "threading.Timer"):
        if "run" not in each.own:
            made.start()
            made.join(9)
        return made.is_alive(), made.ident is None, made.daemon, isinstance(made, threading.Thread)
    if each.base == "threading.local":
        made.of_this_thread, seen = 1, []
        thread = threading.Thread(target=lambda: seen.append(hasattr(made, "of_this_thread")))
        thread.start()
        thread.join()
        return seen
    if each.base.startswith("queue."):
        made.put((1, "item"))
        return made.qsize(), made.get(timeout=1) is not None, made.empty()
    if each.base == "socket.socket":
        return made.close(), made.fileno()
    if each.base.endswith("Selector"):
        return made.select(0), made.close()
    return sorted(vars(made))


def main() -> None:
    if "--patched" in sys.argv:
        import dhaga.monkey

        dhaga.monkey.patch()
    logging.disable()
    warnings.simplefilter("ignore")
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # modules may print
    found = {f"{path} {each.name}": attempt(path, each) for path, each in installed()}
    os.write(out, json.dumps(found).encode() + b"\n")
    os._exit(0)  # what was imported may have begun threads


if __name__ == "__main__":
    main()
