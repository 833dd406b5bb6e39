"""``dhaga.wait`` and ``dhaga.as_completed``: several dhagas and futures at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga import futures
from dhaga.testing import cancel_at_every_park, virtual_clock

FIRST_COMPLETED, FIRST_EXCEPTION = futures.FIRST_COMPLETED, futures.FIRST_EXCEPTION


@pytest.fixture
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock
        dhaga.sleep(10_000)  # what a test does not wait for ends


def naps(*seconds: float) -> list[dhaga.Dhaga[float]]:
    """Spawn dhagas that sleep, and return how long."""
    return [dhaga.spawn(lambda each: dhaga.sleep(each) or each, each) for each in seconds]


def fail_after(seconds: float) -> dhaga.Dhaga[None]:
    def fails() -> None:
        dhaga.sleep(seconds)
        raise LookupError(seconds)

    return dhaga.spawn(fails)


def left_on(*waitables: Any) -> list[int]:
    """Return how many joiners and waiters each one has."""
    return [sum(map(bool, each._joiners)) + getattr(each, "result_waiters", 0) for each in waitables]


# ---- wait


def test_wait_for_all_takes_as_long_as_the_longest(clock: Any) -> None:
    sleepers = naps(3, 1, 2)
    assert dhaga.wait(sleepers) == (set(sleepers), set())
    assert clock() == 3


def test_wait_for_the_first_leaves_the_others_as_they_were(clock: Any) -> None:
    one, two, never = *naps(1, 2), dhaga.spawn(dhaga.park, "end")
    result = dhaga.wait([one, two, never], return_when=FIRST_COMPLETED)
    assert (result.done, result.not_done, clock()) == ({one}, {two, never}, 1)
    assert left_on(two, never) == [0, 0]
    never.cancel()


def test_all_that_have_ended_by_then_are_done(clock: Any) -> None:
    sleepers = naps(1, 1, 1, 2)
    dhaga.sleep(1.5)
    assert dhaga.wait(sleepers, return_when=FIRST_COMPLETED) == (set(sleepers[:3]), {sleepers[3]})


def test_wait_for_the_first_error_counts_no_cancel(clock: Any) -> None:
    cancelled, failing, late = dhaga.spawn(dhaga.park, "end"), fail_after(2), dhaga.spawn(dhaga.sleep, 3)
    dhaga.spawn_later(1, cancelled.cancel)
    done, not_done = dhaga.wait([cancelled, failing, late], return_when=FIRST_EXCEPTION)
    assert (done, not_done, clock()) == ({cancelled, failing}, {late}, 2)
    with pytest.raises(LookupError):
        failing.result()


def test_a_timeout_returns_what_has_ended(clock: Any) -> None:
    one, two = naps(1, 3)
    assert dhaga.wait([one, two], timeout=2) == ({one}, {two})
    assert clock() == 2 and left_on(two) == [0]
    assert dhaga.wait([one, two], timeout=0) == ({one}, {two})


def test_dhagas_and_futures_of_both_kinds_are_waited_for_at_once(clock: Any) -> None:
    ours: futures.Future[int] = futures.Future()
    standard: concurrent.futures.Future[int] = concurrent.futures.Future()
    (nap,) = naps(1)
    dhaga.spawn_later(2, ours.set_result, 2)
    dhaga.spawn_later(3, standard.set_result, 3)
    assert list(dhaga.as_completed([standard, ours, nap])) == [nap, ours, standard]
    assert dhaga.wait([standard, ours, nap]).not_done == set()
    assert futures.wait is dhaga.wait and futures.as_completed is dhaga.as_completed


def test_a_wait_from_another_thread_and_in_it() -> None:
    ends = threading.Event()
    found: list[Any] = []
    with dhaga.Scheduler() as scheduler:
        there = [scheduler.spawn(dhaga.sleep, 0.01) for _ in range(5)]
        assert dhaga.wait(there).not_done == set()
        again = [scheduler.spawn(dhaga.sleep, 0.01) for _ in range(5)]
        thread = threading.Thread(target=lambda: (found.extend(dhaga.as_completed(again)), ends.set()))
        thread.start()
        dhaga.offload(ends.wait)
        thread.join()
    assert set(found) == set(again)


def test_a_wait_that_is_cancelled_leaves_nothing_behind(clock: Any) -> None:
    future: futures.Future[None] = futures.Future()
    standard: concurrent.futures.Future[None] = concurrent.futures.Future()
    never = dhaga.spawn(dhaga.park, "end")
    waits = dhaga.spawn(dhaga.wait, [future, standard, never])
    dhaga.sleep(1)
    assert left_on(never) == [2] and standard._waiters  # a joiner, which will see the result
    waits.cancel()
    waits.join()
    assert (left_on(future, never), standard._waiters) == ([0, 0], [])
    never.cancel()


def test_a_thousand_completions_cost_a_queue_item_each(clock: Any) -> None:
    looks = []

    class Watched(futures.Future[None]):
        def cancelled(self) -> bool:
            looks.append(self)
            return super().cancelled()

    waited_for = [Watched() for _ in range(1000)]
    for number, future in enumerate(waited_for):
        dhaga.spawn_later(number, future.set_result, None)
    assert dhaga.wait(waited_for, return_when=FIRST_EXCEPTION).not_done == set()
    assert len(looks) <= 2 * len(waited_for)


# ---- as_completed


def test_as_completed_yields_in_the_order_of_the_ends(clock: Any) -> None:
    assert [each.result() for each in dhaga.as_completed(naps(3, 1, 2))] == [1, 2, 3]


def test_as_completed_counts_its_timeout_from_the_call(clock: Any) -> None:
    one, three = naps(1, 3)
    ended = dhaga.as_completed([one, three], timeout=2)
    assert next(ended) is one
    with pytest.raises(TimeoutError, match="1 of the waitables have not ended"):
        next(ended)
    assert left_on(three) == [0]


def test_an_iterator_that_is_closed_leaves_nothing_behind(clock: Any) -> None:
    one, two = naps(1, 2)
    ended: Any = dhaga.as_completed([one, two])
    assert next(ended) is one and left_on(two) == [2]
    ended.close()
    assert left_on(two) == [0]


# ---- errors of those waited for


def reported(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    errors: list[BaseException | None] = []
    monkeypatch.setattr(dhaga, "excepthook", lambda args: errors.append(args.exc_value))
    return errors


def test_an_error_is_the_callers_to_see(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = reported(monkeypatch)
    failing = fail_after(1)
    for each in dhaga.as_completed([failing]):
        with pytest.raises(LookupError):
            each.result()
    del failing, each
    gc.collect()
    assert errors == []


def test_an_error_that_no_caller_looks_at_is_reported_when_its_dhaga_is_freed(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = reported(monkeypatch)
    failing = fail_after(1)
    done = dhaga.wait([failing]).done
    assert errors == [] and done == {failing}
    del failing, done
    gc.collect()
    assert [repr(each) for each in errors] == ["LookupError(1)"]


def test_an_error_after_the_wait_is_reported_at_once(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = reported(monkeypatch)
    failing = fail_after(2)
    dhaga.wait([failing], timeout=1)
    failing.join()
    assert len(errors) == 1


# ---- misuse


async def coroutine() -> None: ...


@pytest.mark.parametrize(
    ("waitables", "text"),
    [
        ([3], "for dhagas and for futures of"),
        (lambda: dhaga.spawn(int), "a list of dhagas or futures is needed"),
        (coroutine, "await_"),
    ],
)
def test_what_cannot_be_waited_for_is_named(clock: Any, waitables: Any, text: str) -> None:
    if waitables is coroutine:
        made = coroutine()
        bad: Any = [made]
    else:
        made, bad = None, waitables() if callable(waitables) else waitables
    for call in (dhaga.wait, dhaga.as_completed):
        with pytest.raises(TypeError, match=text):
            call(bad)
    if made is not None:
        made.close()


def test_a_moment_that_there_is_not_is_refused(clock: Any) -> None:
    with pytest.raises(ValueError, match="FIRST_EXCEPTION, not 'SOON'"):
        dhaga.wait([], return_when="SOON")
    assert dhaga.wait([]) == (set(), set()) and list(dhaga.as_completed([])) == []


def test_a_coroutine_is_told_its_way() -> None:
    async def main() -> None:
        never = dhaga.spawn(dhaga.park, "end")
        with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
            dhaga.wait([never])
        never.cancel()

    asyncio.run(main())


def test_nothing_is_left_whichever_park_is_struck() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Any]:
        future: futures.Future[int] = futures.Future()
        sleeper = dhaga.spawn(dhaga.sleep, 2)
        dhaga.spawn_later(1, future.set_result, 1)

        def waits() -> None:
            for _ in dhaga.as_completed([future, sleeper]):
                pass

        def check() -> None:
            assert left_on(future, sleeper) == [0, 0]

        return dhaga.spawn(waits), check

    assert cancel_at_every_park(scenario) == 2
