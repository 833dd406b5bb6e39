"""Parking and waking: one wake a park, the first wins, and nothing handed over is lost."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga.queue import Queue
from dhaga.socket import socketpair
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Condition, Event, Lock, RLock, Semaphore


def test_park_returns_the_value_or_raises_the_error_of_its_wake() -> None:
    def parks() -> Any:
        try:
            return dhaga.park("x")
        except LookupError as error:
            return error

    with virtual_clock():
        for kwargs, result in (({}, None), ({"value": 1}, 1), ({"error": (error := LookupError())}, error)):
            d = dhaga.spawn(parks)
            settle()
            assert d.wake(**kwargs) is True  # type: ignore[arg-type]
            assert d.wake("too late") is d.wake(error=OSError("too late")) is False
            assert d.result() is result
            assert d.wake() is False


def test_main_code_parks_and_is_woken_like_a_dhaga() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        me = dhaga.current()
        assert dhaga.current() is me and not isinstance(me, dhaga.Dhaga)
        assert repr(me) == "<Main code of virtual RUNNING>"
        dhaga.spawn(lambda: (trace.append(repr(me)), dhaga.sleep(5), me.wake("by a dhaga")))
        assert dhaga.park("x") == "by a dhaga"
        assert trace == ["<Main code of virtual WAITING x>"] and clock() == 5
        with pytest.raises(TimeoutError):
            dhaga.park("x", timeout=3)
        assert clock() == 8


def test_start_runs_once_a_wake_counts_so_that_none_comes_too_early() -> None:
    """A wake before the switch is as good as one after it."""
    with virtual_clock():

        def parks() -> Any:
            me = dhaga.current()
            return dhaga.park("x", start=lambda: me.wake("at once"))

        d = dhaga.spawn(parks)
        assert d.result() == "at once"
        me = dhaga.current()
        assert dhaga.park("x", start=lambda: me.wake("at once")) == "at once"


def test_a_start_that_fails_ends_the_park_with_its_error() -> None:
    def fails() -> None:
        raise LookupError("start")

    with virtual_clock():
        with pytest.raises(LookupError):
            dhaga.park("x", start=fails)
        d = dhaga.spawn(dhaga.park, "x", start=fails)
        with pytest.raises(LookupError):
            d.result()


def test_os_threads_wake_dhagas_and_main_code_that_start_them() -> None:
    def parks(n: int) -> Any:
        me = dhaga.current()
        return dhaga.park("thread", start=threading.Thread(target=me.wake, args=(n,)).start)

    assert [parks(n) for n in range(20)] == list(range(20))
    assert [d.result() for d in [dhaga.spawn(parks, n) for n in range(20)]] == list(range(20))
    with dhaga.Scheduler() as scheduler:
        assert [d.result() for d in [scheduler.spawn(parks, n) for n in range(20)]] == list(range(20))


def test_of_many_threads_that_wake_one_park_exactly_one_wins() -> None:
    rounds, winners = 200, []
    gate = threading.Barrier(5)
    dhagas: list[dhaga.Dhaga] = []

    def thread_code(name: int) -> None:
        for n in range(rounds):
            gate.wait()
            if dhagas[n].wake((n, name)):
                winners.append((n, name))

    threads = [threading.Thread(target=thread_code, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    with dhaga.Scheduler() as scheduler:
        results = []
        for _ in range(rounds):
            dhagas.append(scheduler.spawn(dhaga.park, "race"))
            while dhagas[-1].state != "WAITING":
                time.sleep(0)
            gate.wait()
            results.append(dhagas[-1].result())
        for thread in threads:
            thread.join()
    assert results == sorted(winners) and len(results) == rounds


def test_undo_runs_before_a_timeout_or_a_cancel_ends_the_park() -> None:
    trace = []

    def parks(timeout: float | None) -> None:
        try:
            dhaga.park("x", undo=lambda: trace.append("undo"), timeout=timeout)
        except BaseException as error:
            trace.append(type(error).__name__)

    with virtual_clock() as clock:
        d = dhaga.spawn(parks, None)
        settle()
        d.cancel()
        d.join()
        dhaga.spawn(parks, 10).join()
        assert clock() == 10
        d = dhaga.spawn(parks, None)
        settle()
        d.wake()
        d.join()
    assert trace == ["undo", "Cancelled", "undo", "TimeoutError"]


@pytest.mark.parametrize("answer", ["False", "ValueError"])
def test_where_undo_comes_too_late_the_wake_under_way_wins_and_a_cancel_stays_pending(answer: str) -> None:
    def undo() -> bool:
        if answer == "ValueError":
            [].remove(1)
        return False

    def parks() -> Any:
        value = dhaga.park("x", undo=undo, timeout=1)
        with pytest.raises(dhaga.Cancelled, match="pending"):
            dhaga.sleep(0)
        return value

    with virtual_clock():
        d = dhaga.spawn(parks)
        settle()
        d.cancel("pending")
        dhaga.sleep(5)  # its timeout comes and finds the same
        assert d.state == "WAITING"
        d.wake("handed over")
        assert d.result() == "handed over"


def test_a_wake_that_comes_while_a_cancel_undoes_wins_and_the_cancel_stays_pending() -> None:
    """As one from another OS thread would, in between: it is taken for nothing, neither for the cancel's end."""

    def parks() -> Any:
        me = dhaga.current()
        value = dhaga.park("x", undo=lambda: me.wake("in between") and None)
        with pytest.raises(dhaga.Cancelled, match="pending"):
            dhaga.sleep(0)
        return value

    with virtual_clock():
        d = dhaga.spawn(parks)
        settle()
        d.cancel("pending")
        assert d.result() == "in between"


@pytest.mark.logs
def test_an_undo_that_fails_is_logged_and_the_park_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_clock():
        with pytest.raises(TimeoutError):
            dhaga.park("x", undo=lambda: 1 / 0, timeout=1)
    assert ["undo of" in record.message for record in caplog.records] == [True]


def test_a_park_of_no_time_is_undone_at_once_unless_the_wake_is_there() -> None:
    with virtual_clock() as clock:
        me = dhaga.current()
        for timeout in (0, -1):
            with pytest.raises(TimeoutError):
                dhaga.park("x", timeout=timeout)
            assert dhaga.park("x", timeout=timeout, start=lambda: me.wake("there")) == "there"
        assert clock() == 0


def test_the_reason_shows_while_the_dhaga_waits() -> None:
    with virtual_clock():
        d = dhaga.spawn(dhaga.park, "a reason", name="d")
        assert (d.state, d.reason, repr(d)) == ("NEW", None, "<Dhaga d NEW>")
        settle()
        assert (d.state, d.reason, repr(d)) == ("WAITING", "a reason", "<Dhaga d WAITING a reason>")
        d.wake()
        assert (d.state, d.reason, repr(d)) == ("RUNNABLE", None, "<Dhaga d RUNNABLE>")
        d.join()
        assert (d.state, d.reason, repr(d)) == ("DONE", None, "<Dhaga d DONE>")


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    trace = []

    def sleeper(seconds: float) -> None:
        dhaga.sleep(seconds)
        trace.append((seconds, clock()))

    with virtual_clock() as clock:
        for d in [dhaga.spawn(sleeper, seconds) for seconds in (300, 100, 200, 0.5, 0.25)]:
            d.join()
    assert trace == [(0.25, 0.25), (0.5, 0.5), (100, 100), (200, 200), (300, 300)]


def test_a_sleeper_that_is_woken_or_cancelled_leaves_no_timer() -> None:
    with virtual_clock() as clock:
        woken, cancelled = dhaga.spawn(dhaga.sleep, 100), dhaga.spawn(dhaga.sleep, 100)
        settle()
        assert woken.wake() and cancelled.cancel()
        woken.join()
        cancelled.join()
        assert clock() == 0 and not len(dhaga.current().scheduler.timers)


def test_sleep_refuses_negative_seconds_anywhere() -> None:
    with virtual_clock():
        for sleep in (dhaga.sleep, lambda seconds: dhaga.spawn(dhaga.sleep, seconds).result()):
            with pytest.raises(ValueError, match="negative"):
                sleep(-1)
    with pytest.raises(ValueError, match="negative"):
        dhaga.sleep(-1)


def test_a_plain_thread_that_parks_gets_a_scheduler_and_its_waits_are_its_own() -> None:
    seen: list[object] = []

    def thread_code() -> None:
        me = dhaga.current()
        timer = threading.Timer(0.01, me.wake, ("by a timer",))
        timer.start()
        seen.append(dhaga.park("x"))
        timer.join()
        seen.append(me.scheduler is not main.scheduler)
        seen.append(dhaga.spawn(lambda: dhaga.sleep(0.001) or threading.current_thread() is thread).result())

    main = dhaga.current()
    thread = threading.Thread(target=thread_code)
    thread.start()
    thread.join()
    assert seen == ["by a timer", True, True]


def test_a_foreign_greenlet_cannot_park_among_dhagas() -> None:
    import greenlet

    def foreign() -> str:
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.spawn"):
            dhaga.sleep(1)
        return "refused"

    with virtual_clock():
        dhaga.sleep(0)
        assert greenlet.greenlet(foreign).switch() == "refused"
        assert dhaga.spawn(lambda: greenlet.greenlet(foreign).switch()).result() == "refused"


def test_a_wake_is_refused_where_something_else_is_to_hand_over() -> None:
    """It would let ``with lock`` go on without the lock, and leave its waiter in the queue."""
    with virtual_clock():
        lock, rlock, condition, event, semaphore = Lock(), RLock(), Condition(), Event(), Semaphore(0)
        queue, full = Queue[int](), Queue[int](1)
        ours, theirs = socketpair()
        one = dhaga.spawn(dhaga.park, "for all")
        for held in (lock, rlock):
            held.acquire()
        full.put(1)

        def waits_for_change() -> None:
            with condition:
                condition.wait()

        waits = [lock.acquire, rlock.acquire, waits_for_change, event.wait, semaphore.acquire, queue.get]
        waits += [lambda: full.put(2), lambda: ours.recv(1), one.join]
        dhagas = [dhaga.spawn(wait) for wait in waits]
        settle()
        for d in dhagas:
            state, place = repr(d), d.place
            with pytest.raises(RuntimeError, match=r"is not for wake\(\) to release.*cancel\(\)"):
                d.wake("anything")
            with pytest.raises(RuntimeError):
                d.wake(error=OSError())
            assert repr(d) == state and d.place is place
        with condition:
            condition.notify()
            assert dhagas[2].reason == "lock.acquire"
            with pytest.raises(RuntimeError):
                dhagas[2].wake()
        for end in (lock.release, rlock.release, event.set, semaphore.release, one.wake, lambda: theirs.send(b"x")):
            end()
        queue.put(1)
        full.get()
        for d in dhagas:
            d.join()
            assert not d.wake()
        for sock in (ours, theirs):
            sock.close()
        assert not lock.waiters and lock.locked()
