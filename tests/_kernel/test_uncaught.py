"""Errors of dhagas, with and without a waiter: which of them reach the excepthook, and errors of the hook itself."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from typing import Any

import pytest
from greenlet import GreenletExit

import dhaga
from dhaga.testing import settle, virtual_clock
from tests.kit.raised import error_of, fail


@pytest.mark.logs
def test_an_error_that_nobody_waits_for_is_logged_with_name_and_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_clock():
        dhaga.spawn(fail, LookupError("lost"), name="unlucky").join()
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("dhaga", logging.ERROR)
    assert record.getMessage() == "unlucky ended with an uncaught error"
    assert record.exc_text is not None
    assert "in fail" in record.exc_text and record.exc_text.endswith("LookupError: lost")
    assert "dhaga/_kernel" not in record.exc_text


def test_nothing_is_logged_of_an_error_that_goes_to_somebody_or_of_a_cancel() -> None:
    with virtual_clock():
        waiting = dhaga.spawn(lambda: dhaga.sleep(1) or fail(LookupError()))
        with pytest.raises(LookupError):
            waiting.result()
        cancelled = dhaga.spawn(dhaga.sleep, 1000)
        settle()
        cancelled.cancel()
        cancelled.join()
        dhaga.spawn(fail, GreenletExit()).join()


def test_excepthook_may_be_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(dhaga, "excepthook", seen.append)
    error = LookupError()
    with virtual_clock():
        d = dhaga.spawn(fail, error)
        d.join()
    ((kind, value, trace, thread),) = seen
    assert (kind, value, thread) == (LookupError, error, d) and trace is error.__traceback__


@pytest.mark.logs
def test_an_excepthook_that_fails_is_logged_and_the_dhaga_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(dhaga, "excepthook", lambda args: 1 / 0)
    with virtual_clock():
        dhaga.spawn(fail, LookupError("lost"), name="unlucky").join()
    (record,) = caplog.records
    assert "excepthook failed on LookupError('lost') of unlucky" in record.getMessage()


def test_an_excepthook_that_exits_ends_the_program_and_the_dhaga_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dhaga, "excepthook", lambda args: sys.exit(5))
    with virtual_clock():
        d = dhaga.spawn(fail, LookupError("lost"))
        with pytest.raises(SystemExit):
            dhaga.sleep(1)
        assert not d.is_alive()
        dhaga.sleep(1)


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """The errors that reach the excepthook."""
    errors: list[BaseException] = []
    monkeypatch.setattr(dhaga, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


@pytest.mark.parametrize("askers", [1, 2])
def test_an_error_whose_askers_are_all_cancelled_in_the_same_turn_reaches_the_excepthook(
    unseen: list[BaseException], askers: int
) -> None:
    def fails() -> None:
        dhaga.sleep(1)
        for each in asking:
            each.cancel()
        raise LookupError("lost")

    with virtual_clock():
        d = dhaga.spawn(fails)
        asking = [dhaga.spawn(d.result) for _ in range(askers)]
        for each in asking:
            assert isinstance(error_of(each.result), dhaga.Cancelled)
        assert unseen == [error_of(d.result)]


def test_an_error_that_one_of_the_askers_sees_does_not_reach_the_excepthook(unseen: list[BaseException]) -> None:
    def fails() -> None:
        dhaga.sleep(1)
        asking[1].cancel()
        raise LookupError("seen")

    with virtual_clock():
        d = dhaga.spawn(fails)
        asking = [dhaga.spawn(error_of, d.result) for _ in range(2)]
        errors = [each.result() for each in asking]
    assert isinstance(errors[0], LookupError) and isinstance(errors[1], dhaga.Cancelled) and not unseen


def test_an_error_whose_awaiting_coroutine_is_cancelled_reaches_the_excepthook(unseen: list[BaseException]) -> None:
    async def main() -> None:
        async def awaits() -> None:
            await d

        def fails() -> None:
            dhaga.park("turn")
            task.cancel()
            raise LookupError("lost")

        d = dhaga.spawn(fails)
        task = asyncio.ensure_future(awaits())
        await asyncio.sleep(0.001)
        d.wake()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [str(error) for error in unseen] == ["lost"]


def test_the_traceback_of_an_error_does_not_grow_with_each_call_of_result(unseen: list[BaseException]) -> None:
    def entries() -> int:
        with pytest.raises(LookupError) as info:
            d.result()
        return len(list(traceback.walk_tb(info.value.__traceback__)))

    with virtual_clock():
        d = dhaga.spawn(fail, LookupError())
        d.join()
        assert entries() == entries() == entries()


def test_an_error_that_a_scope_has_does_not_reach_the_excepthook_as_well(unseen: list[BaseException]) -> None:
    def fails() -> None:
        dhaga.sleep(1)
        asking.cancel()
        raise LookupError("for the scope")

    with virtual_clock():
        with pytest.raises(ExceptionGroup), dhaga.Scope() as scope:
            child = scope.spawn(fails)
            asking = dhaga.spawn(error_of, child.result)
        asking.join()
    assert not unseen


# ---- a hook that parks, or that raises what no hook should


def test_an_excepthook_may_park_and_the_error_stays_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[BaseException | None] = []

    def hook(args: Any) -> None:
        dhaga.sleep(1)
        reported.append(args.exc_value)

    monkeypatch.setattr(dhaga, "excepthook", hook)
    lost = LookupError("lost")
    with virtual_clock():
        d = dhaga.spawn(fail, lost)
        d.join()
        assert reported == [lost] and error_of(d.result) is lost


@pytest.mark.logs
def test_a_cancel_that_ends_a_park_of_the_excepthook_ends_neither_the_report_nor_the_scheduler(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled_and_failing() -> None:
        dhaga.current().cancel_with(dhaga.Cancelled("late"))
        raise LookupError("lost")

    monkeypatch.setattr(dhaga, "excepthook", lambda args: dhaga.sleep(1))
    with virtual_clock():
        d = dhaga.spawn(cancelled_and_failing, name="unlucky")
        other = dhaga.spawn(dhaga.sleep, 2)
        other.join()
        assert isinstance(error_of(d.result), LookupError)
    (record,) = caplog.records
    assert record.getMessage() == "the report of LookupError('lost') of unlucky was cancelled"


@pytest.mark.logs
def test_an_excepthook_that_raises_what_no_hook_should_does_not_stop_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dhaga, "excepthook", lambda args: fail(GeneratorExit()))
    with virtual_clock():
        d = dhaga.spawn(fail, LookupError("lost"))
        other = dhaga.spawn(dhaga.sleep, 1)
        other.join()
        assert isinstance(error_of(d.result), LookupError)


def test_a_guest_whose_excepthook_exits_still_ends_with_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dhaga, "excepthook", lambda args: sys.exit(5))
    cleaned: list[str] = []

    def waits() -> None:
        try:
            dhaga.spawn(fail, LookupError("lost"))
            dhaga.park("nothing")
        finally:
            cleaned.append("up")

    async def main() -> None:
        dhaga.spawn(waits)
        await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        asyncio.run(main())
    assert cleaned == ["up"]
