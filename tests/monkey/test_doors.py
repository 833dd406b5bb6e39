"""The patch of the doors: wanted or not, after an engine's own imports, and what is said where it cannot be."""

from __future__ import annotations

import pytest

from dhaga.monkey import PatchError
from dhaga.monkey._doors import VARIABLE, is_wanted, unpatched_line
from tests.kit.scripts import prints

ENGINE = """
    import sys, threading, types
    engine = types.ModuleType("engine.part")
    exec("import threading\\nclass Own(threading.Thread):\\n def run(self): self.ran_in = threading.current_thread()\\n"
         "class Names(threading.local): pass", vars(engine))
    from dhaga.monkey import _doors
"""


@pytest.mark.parametrize(("value", "wanted"), [(None, True), ("1", True), ("", True), ("0", False)])
def test_the_environment_says_whether_it_is_wanted(
    value: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    assert is_wanted() is wanted


def test_it_comes_after_the_imports_of_an_engine_that_is_known() -> None:
    assert prints(
        ENGINE
        + """
    print(_doors.obstacle() is not None, _doors.patch_for_door("engine"), _doors.is_patched(), _doors.obstacle())
    thread = engine.Own()
    thread.start()
    thread.join()
    import dhaga.threading
    print(isinstance(thread, dhaga.threading.Thread), thread.ran_in is thread)
    import dhaga.monkey
    dhaga.monkey.unpatch()
    print(engine.Own.__mro__[1] is threading.Thread, threading.Thread.__module__)
    """
    ) == ["True None True None", "True True", "True threading"]


def test_an_obstacle_is_returned_and_nothing_is_patched() -> None:
    assert prints(
        ENGINE
        + """
    error = _doors.patch_for_door("other")
    print("`import engine`" in str(error), type(error).__name__, _doors.is_patched(), engine.Own.__base__.__module__)
    """
    ) == ["True PatchError False threading"]


def test_what_is_not_wanted_is_not_done() -> None:
    assert prints(ENGINE + "    print(_doors.patch_for_door(), _doors.is_patched())\n", DHAGA_PATCH="0") == [
        "None False"
    ]


def test_the_line_says_what_holds_why_and_the_way_out() -> None:
    line = unpatched_line("the worker", PatchError("a thread runs"), "`this command` patches")
    assert line.startswith("the worker runs unpatched, so a call that blocks")
    assert ": a thread runs. `this command` patches; if you want no patch, set DHAGA_PATCH=0" in line
    assert "\n" not in line
