"""Scopes in processes: forks, deadlocks and Ctrl-C."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

import dhaga
from dhaga import Scope, shield
from dhaga.testing import settle, virtual_clock
from tests.kit.scopes import errors_in
from tests.kit.scripts import Program, prints, run

# ---- fork


FORKING = """
import os, warnings, dhaga
from dhaga import Cancelled, Scope, fail_after, shield

warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")

def in_forked_child(goes_on):
    if (pid := os.fork()) == 0:
        try:
            goes_on()
            os._exit(7)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def cut_short(wait):
    try:
        wait()
    except (Cancelled, TimeoutError) as error:
        return error

"""


@pytest.mark.parametrize("where", ["body()", "dhaga.spawn(body).result()"])
def test_a_body_that_forks_leaves_its_block_in_the_child_without_waiting_for_the_parents_dhagas(where: str) -> None:
    assert prints(
        FORKING
        + f"""
def body():
    outer = Scope(name="outer").__enter__()
    scope = fail_after(1000, name="forked").__enter__()
    handle = scope.spawn(dhaga.sleep, 0.02)

    def goes_on():
        own = scope.spawn(dhaga.sleep, 0.001)
        scope.__exit__(None, None, None)
        assert own.has_ended and handle not in scope._children
        with shield():
            outer.cancel()
            dhaga.sleep(0.001)
        error = cut_short(lambda: dhaga.sleep(1))
        assert error.scope is outer and outer.__exit__(Cancelled, error, None) is True
        dhaga.sleep(0)

    print(in_forked_child(goes_on))
    assert not handle.has_ended
    scope.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    print(handle.has_ended, outer.cancel_called)

{where}
"""
    ) == ["7", "True False"]


def test_deadlines_and_shields_that_are_in_force_go_along_with_a_fork() -> None:
    assert prints(
        FORKING
        + """
def goes_on():
    shielded.__exit__(None, None, None)
    error = cut_short(lambda: dhaga.sleep(10))
    assert error.scope is scope
    assert isinstance(cut_short(lambda: scope.__exit__(Cancelled, error, None)), TimeoutError)

def block():
    global shielded, scope
    with fail_after(0.05) as scope:
        shielded = shield()
        with shielded:
            print(in_forked_child(goes_on))
        dhaga.sleep(10)

print(repr(cut_short(block)))
"""
    ) == ["7", "TimeoutError('not done within 0.05 s')"]


def test_an_error_of_a_child_whose_scope_is_in_the_parent_process_goes_to_the_excepthook() -> None:
    done = run(
        FORKING
        + """
def child():
    if os.fork() == 0:
        raise ValueError("of the child process")
    os.wait()

with Scope() as scope:
    scope.spawn(child, name="forks")
print("parent is done")
"""
    )
    assert (done.status, done.lines) == (0, ["parent is done"])
    assert "forks ended with an uncaught error" in done.err
    assert "ValueError: of the child process" in done.err


# ---- Ctrl-C and deadlock


def test_a_body_that_waits_for_a_child_that_nothing_could_wake_gets_the_deadlock() -> None:
    def block() -> None:
        with Scope(name="stuck") as scope:
            scope.spawn(dhaga.park, "godot")

    (error,) = errors_in(block)
    assert isinstance(error, dhaga.Deadlock)
    assert "waits for scope stuck on <Scope stuck open, 1 child>" in str(error)


def test_a_child_that_is_stuck_in_a_shield_is_reported_once_and_keeps_the_block_open() -> None:
    program = Program(
        """
import logging, sys, dhaga

class Told(logging.Handler):
    def emit(self, record):
        print(record.getMessage().splitlines()[0], flush=True)

logging.getLogger("dhaga").addHandler(Told())

def stuck():
    with dhaga.shield():
        dhaga.park("godot")

with dhaga.Scope(name="told") as scope:
    child = scope.spawn(stuck)
    dhaga.sleep(0)
    scope.cancel()
"""
    )
    program.interrupt_at("every dhaga waits, and nothing in this process could wake one:")
    time.sleep(0.3)  # a second Ctrl-C at once would be the same one
    program.process.send_signal(signal.SIGINT)
    outcome = program.outcome()
    assert outcome.lines == [] and outcome.status == 1
    assert "| dhaga.Deadlock" in outcome.err and "| KeyboardInterrupt" in outcome.err


def test_a_ctrl_c_that_comes_again_ends_what_is_shielded() -> None:
    trace: list[Any] = []

    def child(depth: int) -> None:
        try:
            with Scope() as scope:
                if depth:
                    scope.spawn(child, depth - 1)
                with shield():
                    dhaga.park("for good")
        finally:
            trace.append(depth)

    def presses() -> None:
        dhaga.sleep(1)
        main.scheduler.mode.interrupt(KeyboardInterrupt())  # cancels, and the shields hold that off
        dhaga.sleep(1)
        main.scheduler.mode.interrupt(KeyboardInterrupt())  # stays pending
        dhaga.sleep(1)
        assert trace == []
        main.wake_parked(error=KeyboardInterrupt())  # goes by force

    with virtual_clock() as clock:
        main = dhaga.current()
        dhaga.spawn(presses)
        with pytest.raises(KeyboardInterrupt), Scope() as scope:
            scope.spawn(child, 2)
        assert clock() == 3 and sorted(trace) == [0, 1, 2]
        dhaga.sleep(1)


def test_a_ctrl_c_that_has_to_wait_for_the_children_comes_at_the_end_of_the_block() -> None:
    def child() -> None:
        with shield():
            dhaga.sleep(1)
            main.scheduler.mode.interrupt(KeyboardInterrupt())
            dhaga.sleep(1)

    with virtual_clock() as clock:
        main = dhaga.current()
        with pytest.raises(KeyboardInterrupt), Scope() as scope:
            scope.spawn(child)
            settle()
            scope.cancel()
        assert clock() == 2


INTERRUPTED = """
import dhaga

def child():
    try:
        dhaga.sleep(60)
    finally:
        with dhaga.shield():
            dhaga.sleep(0.01)
        print("put away")

with dhaga.Scope() as scope:
    for _ in range(3):
        scope.spawn(child)
    scope.spawn(print, "ready")
    {body}
"""


@pytest.mark.parametrize("body", ["dhaga.sleep(60)", "pass"])
def test_ctrl_c_ends_every_child_and_then_the_program_as_it_does_without_a_scope(body: str) -> None:
    outcome = Program(INTERRUPTED.format(body=body)).interrupt_at("ready").outcome()
    assert outcome.lines == ["put away"] * 3
    assert outcome.status == -signal.SIGINT
    assert outcome.err.rstrip().endswith("KeyboardInterrupt") and "ExceptionGroup" not in outcome.err
