"""Stacks: of parked dhagas and of OS threads, without the kernel's own frames."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import dhaga
from dhaga._kernel import stacks
from dhaga.testing import settle, virtual_clock


def outer() -> None:
    inner()


def inner() -> None:
    dhaga.sleep(1)


def test_a_parked_dhaga_shows_its_own_calls_and_not_how_it_parks() -> None:
    with virtual_clock():
        d = dhaga.spawn(outer)
        settle()
        found = stacks.stack_of(d.gr_frame)
        d.join()
    assert [frame.function for frame in found] == ["outer", "inner"]
    assert found[-1].source == "dhaga.sleep(1)" and not found[-1].of_dhaga
    assert str(found[-1]).startswith(f"{__file__}:") and str(found[-1]).endswith(" in inner")


def test_no_frame_is_no_stack_and_a_deep_one_keeps_its_innermost_calls() -> None:
    def deep(calls: int) -> stacks.Stack:
        return deep(calls - 1) if calls else stacks.stack_of(sys._getframe())

    assert stacks.stack_of(None) == ()
    assert [frame.function for frame in deep(2 * stacks.MAX_FRAMES)] == ["deep"] * stacks.MAX_FRAMES


def test_each_os_thread_is_found_by_its_ident_with_the_place_that_it_is_at() -> None:
    go_on = threading.Event()
    thread = threading.Thread(target=go_on.wait)
    thread.start()
    found = stacks.stacks_of_threads()
    go_on.set()
    thread.join()
    assert thread.ident is not None
    assert "wait" in [frame.function for frame in found[thread.ident]]
    here = [frame.function for frame in found[threading.get_ident()]]
    assert "test_each_os_thread_is_found_by_its_ident_with_the_place_that_it_is_at" in here


PROGRAM = """\
from threading import get_ident

import dhaga
from dhaga._kernel.stacks import stack_of, stacks_of_threads
from greenlet import getcurrent


def look(main):
    print(*[frame.function for frame in stack_of(main.gr_frame)])


def main():
    print(*[frame.function for frame in stacks_of_threads()[get_ident()]])
    dhaga.spawn(look, getcurrent())
    dhaga.sleep(0)


main()
"""


@pytest.mark.parametrize(
    "command", [["-m", "dhaga", "program.py"], ["-m", "dhaga", "-m", "program"], ["-m", "program"]]
)
def test_the_stack_of_main_code_begins_in_the_program(command: list[str], tmp_path: Path) -> None:
    """This holds also for the stack that ``stacks_of_threads`` reads from the output of faulthandler."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    of_thread, parked = done.stdout.splitlines()
    assert of_thread.startswith("<module> main") and parked == "<module> main"
