"""The protocol of a waiter: park, wake, undo, and which of two that come at once wins."""

from __future__ import annotations

import ast
import gc
import threading
import time
import weakref
from typing import Any

import pytest

import dhaga
from dhaga._kernel.wait.current import this_waiter
from dhaga.queue import Queue
from dhaga.socket import socketpair
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Condition, Event, Lock, RLock, Semaphore
from tests.kit.sources import sources_with


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
            assert d.wake(**kwargs) is True
            assert d.wake("too late") is d.wake(error=OSError("too late")) is False
            assert d.result() is result
            assert d.wake() is False


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
        dhaga.sleep(5)  # its timeout comes, and is refused in the same way
        assert d.state == "WAITING"
        d.wake("handed over")
        assert d.result() == "handed over"


def test_a_wake_that_comes_while_a_cancel_undoes_wins_and_the_cancel_stays_pending() -> None:
    """A wake from another OS thread may come so: it is not lost, and not taken for the cancel's end."""

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


def test_a_wake_is_refused_where_something_else_is_to_hand_over() -> None:
    """The wake would let ``with lock`` go on without the lock, and leave its waiter in the queue."""
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
            state, place = repr(d), d.wait_target
            with pytest.raises(RuntimeError, match=r"(?s)cannot be released by wake\(\).*cancel\(\)"):
                d.wake("anything")
            with pytest.raises(RuntimeError):
                d.wake(error=OSError())
            assert repr(d) == state and d.wait_target is place
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
        assert not lock._waiters.parked() and lock.locked()


def test_only_the_waiter_makes_tickets() -> None:
    """So the order of a park, and what may come between its two halves, is in one place."""
    makers = {
        path
        for path, source in sources_with("parked")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name | ast.List)
        and ast.unparse(node.value) != "[]"
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr == "parked"
    }
    assert makers == {"_kernel/wait/waiter.py"}


class Result:
    """A result of a dhaga; a weak reference shows whether it is still there."""


@pytest.mark.parametrize("way", ["main code", "dhaga", "OS thread"])
def test_no_waiter_keeps_what_its_last_park_waited_for(way: str) -> None:
    """A waiter that kept the dhaga would also keep its result: a file would not be closed before the next park."""
    kept: list[Any] = []

    def join_one() -> None:
        joined = scheduler.spawn(Result)
        kept.append(weakref.ref(joined))
        joined.join()
        kept.append(weakref.ref(joined.result()))
        del joined
        gc.collect()  # free-threaded builds free some objects only here
        kept[:] = [each() for each in kept]

    with virtual_clock():
        scheduler = dhaga.current().scheduler
        if way == "main code":
            join_one()
        elif way == "dhaga":
            dhaga.spawn(join_one).join()
        else:
            dhaga.offload(join_one)
    assert kept == [None, None]


class ParksAtItsEnd:
    """A wait target whose finalizer parks."""

    def __init__(self, ends: list[str]) -> None:
        self.ends = ends

    def _remove(self, waiter: object) -> bool:
        return False

    def __del__(self) -> None:
        dhaga.sleep(0.01)
        self.ends.append("finalized")


@pytest.mark.parametrize("error", [None, LookupError("of the wake")])
@pytest.mark.parametrize("way", ["main code", "dhaga", "OS thread"])
def test_a_finalizer_that_parks_when_the_target_is_dropped_keeps_the_wakes_value(way: str, error: Any) -> None:
    ends: list[str] = []
    waiting: Queue[Any] = Queue()

    def parks() -> Any:
        me: Any = this_waiter()
        me.prepare_park("x", ParksAtItsEnd(ends))
        waiting.put(me)
        try:
            return me.park_within(None)
        except LookupError as raised:
            return str(raised)

    with virtual_clock():
        waker = dhaga.spawn(lambda: waiting.get().wake_parked("value", error))
        if way == "main code":
            result = parks()
        else:
            result = dhaga.offload(parks) if way == "OS thread" else dhaga.spawn(parks).result()
        waker.join()
        if error is not None:
            error.__traceback__ = None
        gc.collect()
    assert (result, ends) == ("of the wake" if error else "value", ["finalized"])
