"""``dhaga.thread``: the standard ``_thread`` on dhagas."""

from __future__ import annotations

import _thread as standard
import sys
import weakref
from typing import Any

import pytest

import dhaga
from dhaga import thread, threading
from dhaga.testing import virtual_clock


def fails() -> None:
    raise LookupError("of the thread")


def test_a_new_thread_calls_its_function_once_its_turn_comes_and_its_ident_is_returned() -> None:
    trace: list[object] = []
    with virtual_clock():
        ident = thread.start_new_thread(
            lambda *args, **more: trace.append((thread.get_ident(), args, more)), (1,), {"a": 2}
        )
        assert not trace
        dhaga.sleep(0)
    assert trace == [(ident, (1,), {"a": 2})]


@pytest.mark.parametrize("arguments", [(1, ()), (fails, []), (fails, (), 5), (fails,), ()])
def test_wrong_arguments_are_refused_as_the_standard_does(arguments: tuple[Any, ...]) -> None:
    for start in (standard.start_new_thread, thread.start_new_thread):
        with pytest.raises(TypeError):
            start(*arguments)


def test_an_error_goes_to_the_unraisablehook_as_that_of_a_standard_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with virtual_clock():
        thread.start_new_thread(fails, ())
        thread.start_new_thread(sys.exit, (3,))
        dhaga.sleep(0)
    done = standard.allocate_lock()
    done.acquire()

    def hook(args: Any) -> None:
        told.append(args)
        done.release()

    monkeypatch.setattr(sys, "unraisablehook", hook)
    standard.start_new_thread(fails, ())
    assert done.acquire(timeout=30)
    ours, its = told
    assert type(ours) is type(its) and ours.exc_type is its.exc_type is LookupError
    assert (ours.err_msg, ours.object) == (its.err_msg, its.object) and ours.exc_traceback is not None


def test_a_keyboard_interrupt_of_its_own_code_is_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def target() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with virtual_clock():
        thread.start_new_thread(target, ())
        dhaga.sleep(1)
    assert [args.exc_type for args in told] == [KeyboardInterrupt]


def test_count_tells_how_many_run_and_what_has_ended_is_let_go() -> None:
    with virtual_clock():
        before = thread._count()
        gate = threading.Event()

        def waits() -> None:
            gate.wait()

        gone = weakref.ref(waits)
        thread.start_new_thread(waits, ())
        other = threading.Thread(target=waits)
        other.start()
        del waits
        dhaga.sleep(0)
        assert thread._count() == before + 2
        gate.set()
        other.join()
        assert thread._count() == before and gone() is None


def test_a_handle_joins_what_was_started_with_it() -> None:
    told: list[str] = []
    with virtual_clock() as clock:
        handle = thread._ThreadHandle()
        for use in (handle.join, handle._set_done):
            with pytest.raises(RuntimeError, match="thread not started"):
                use()
        assert not handle.is_done() and handle.ident == 0

        def joins_itself() -> None:
            try:
                handle.join()
            except RuntimeError as error:
                told.append(str(error))
            dhaga.sleep(5)

        assert thread.start_joinable_thread(joins_itself, handle, daemon=False) is handle
        with pytest.raises(RuntimeError, match="thread already started"):
            thread.start_joinable_thread(fails, handle=handle)
        handle.join(1)
        assert (handle.is_done(), clock()) == (False, 1)
        handle.join(-1)
        handle.join()
        assert (handle.is_done(), clock()) == (True, 5) and f"ident={handle.ident}" in repr(handle)
    assert told == ["Cannot join current thread"]
    for arguments in ((1,), (fails, 3)):
        with pytest.raises(TypeError):
            thread.start_joinable_thread(*arguments)
