"""Schedulers with an OS thread of their own: started, used from anywhere, stopped."""

from __future__ import annotations

import errno
import signal
import threading
import time
from typing import Any
from unittest import mock

import pytest

import dhaga
import dhaga.threading
from dhaga import testing
from dhaga._kernel.run.attachment import schedulers
from dhaga._kernel.run.run_modes import OwnThreadMode
from tests.kit.raised import error_of
from tests.kit.scripts import prints


@pytest.mark.logs  # of errors that come before another thread can ask for the result
def test_spawn_join_result_and_cancel_work_from_any_thread() -> None:
    trace: list[Any] = []

    def works() -> str:
        dhaga.sleep(0.001)
        return threading.current_thread().name

    def uses(scheduler: dhaga.Scheduler) -> None:
        d = scheduler.spawn(works)
        d.join()
        trace.append(d.result())
        with pytest.raises(ZeroDivisionError):
            scheduler.spawn(lambda: dhaga.sleep(0.001) or 1 / 0).result()
        parked = scheduler.spawn(dhaga.park, "nothing")
        with pytest.raises(TimeoutError):
            parked.result(timeout=0.001)
        assert parked.join(timeout=0.001) is None and parked.is_alive()
        assert parked.cancel("enough")
        with pytest.raises(dhaga.Cancelled, match="enough"):
            parked.result()
        assert not parked.cancel()

    with dhaga.Scheduler("one") as one, dhaga.Scheduler("two") as two:
        uses(one)  # a plain thread, which blocks
        thread = threading.Thread(target=uses, args=(one,))
        thread.start()
        thread.join()
        two.spawn(uses, one).result()  # a dhaga of another scheduler
        one.spawn(uses, one).result()  # its own
        dhaga.spawn(uses, one).result()  # a dhaga of the main code, which waits with it
    assert trace == ["one"] * 5


def test_stop_cancels_all_and_runs_every_finally() -> None:
    trace = []

    def left(name: str) -> None:
        try:
            dhaga.sleep(1000)
        except dhaga.Cancelled as cancelled:
            trace.append(f"{name}: {cancelled.reason}")
            raise
        finally:
            dhaga.sleep(0.001)
            dhaga.spawn(trace.append, f"{name}: spawned in finally").join()

    scheduler = dhaga.Scheduler("s").start()
    dhagas = [scheduler.spawn(left, name) for name in "ab"]
    scheduler.spawn(dhaga.sleep).join()
    scheduler.stop()
    assert sorted(trace) == [f"{name}: {what}" for name in "ab" for what in ("s stops", "spawned in finally")]
    assert not any(d.is_alive() for d in dhagas)
    assert scheduler not in schedulers


def test_a_stop_that_takes_too_long_names_those_that_do_not_end() -> None:
    def stubborn() -> None:
        try:
            dhaga.park("one thing")
        finally:
            dhaga.park("another thing")

    scheduler = dhaga.Scheduler("slow").start()
    d = scheduler.spawn(stubborn, name="stubborn")
    scheduler.spawn(dhaga.sleep).join()
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"slow was told to stop.*: <Dhaga stubborn WAITING another thing>$"):
            scheduler.stop(timeout=0.05)
    with pytest.raises(RuntimeError, match="stopped"):
        scheduler.spawn(int)
    d.wake()
    scheduler.stop()


def test_stop_waits_in_a_dhaga_without_blocking_its_thread_and_many_may_wait() -> None:
    """All the stops cancel only once: the ``finally`` has its time."""
    trace = []

    def slow() -> None:
        try:
            dhaga.sleep(1000)
        finally:
            dhaga.sleep(0.05)
            trace.append("finally")

    scheduler = dhaga.Scheduler().start()
    scheduler.spawn(slow)
    scheduler.spawn(dhaga.sleep).join()

    def stops(name: str) -> None:
        scheduler.stop()
        trace.append(name)

    stoppers = [dhaga.spawn(stops, name) for name in "ab"]
    thread = threading.Thread(target=stops, args=("thread",))
    thread.start()
    dhaga.spawn(trace.append, "not blocked")
    for stopper in stoppers:
        stopper.join()
    thread.join()
    assert trace[:2] == ["not blocked", "finally"] and sorted(trace[2:]) == ["a", "b", "thread"]


@pytest.mark.logs
def test_what_is_refused() -> None:
    scheduler = dhaga.Scheduler("refuses")
    with pytest.raises(RuntimeError, match="no thread of its own"):
        scheduler.stop()
    with scheduler:
        with pytest.raises(RuntimeError, match="started before"):
            scheduler.start()
        with pytest.raises(RuntimeError, match="cannot be stopped from within"):
            scheduler.spawn(scheduler.stop).result()
        assert scheduler.spawn(lambda: "still alive").result() == "still alive"
    with pytest.raises(RuntimeError, match="stopped"):
        scheduler.spawn(int)
    with pytest.raises(RuntimeError, match="started before"):
        scheduler.start()
    scheduler.stop()


def test_a_start_that_a_ctrl_c_cuts_short_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = []

    def run_late(life: OwnThreadMode) -> None:
        lives.append(life)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        run(life)

    run = OwnThreadMode.run
    monkeypatch.setattr(OwnThreadMode, "run", run_late)
    scheduler, in_time = dhaga.Scheduler("cut"), True
    with pytest.raises(KeyboardInterrupt):
        scheduler.start()
        in_time = False
        time.sleep(20)
    if not in_time:  # without the interpreter lock the thread may be faster than the signal
        scheduler.stop()
    lives[0].thread.join(30)
    assert not lives[0].thread.is_alive() and lives[0].ended
    monkeypatch.undo()
    with dhaga.Scheduler("next") as scheduler:
        assert scheduler.spawn(int).result() == 0


def test_a_stopped_scheduler_is_not_mistaken_for_the_thread_that_inherits_its_number() -> None:
    """The system reuses thread idents: ``stop`` and ``spawn`` in the new thread are not calls from within."""
    seen = []
    for _ in range(20):
        scheduler = dhaga.Scheduler().start()
        ident = scheduler.thread_ident
        scheduler.stop()

        def uses(scheduler: dhaga.Scheduler = scheduler, ident: int = ident) -> None:
            with pytest.raises(RuntimeError, match="stopped"):
                scheduler.spawn(int)
            scheduler.stop()
            seen.append(threading.get_ident() == ident)

        thread = threading.Thread(target=uses)
        thread.start()
        thread.join()
    assert len(seen) == 20


def test_dhagas_spawned_before_the_start_wait_for_it() -> None:
    scheduler = dhaga.Scheduler()
    d = scheduler.spawn(lambda: dhaga.current().scheduler is scheduler)
    assert d.state == "NEW"
    with scheduler:
        assert d.result()


def test_system_exit_in_a_thread_of_its_own_ends_one_dhaga_in_silence() -> None:
    """``sys.exit`` in a standard thread does the same; callers that ask for the result get the SystemExit."""
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(lambda: (_ for _ in ()).throw(SystemExit(3)))
        d.join()
        with pytest.raises(SystemExit):
            d.result()
        assert scheduler.spawn(lambda: "goes on").result() == "goes on"


@pytest.mark.crowd
def test_a_spawn_that_races_with_stop_is_refused_or_ends() -> None:
    """No dhaga is taken that will never run: its join would hang."""
    taken = refused = 0
    for n in range(15):
        scheduler = dhaga.Scheduler().start()
        dhagas: list[dhaga.Dhaga] = []

        def spawns(scheduler: dhaga.Scheduler = scheduler, dhagas: list[dhaga.Dhaga] = dhagas) -> None:
            nonlocal refused
            try:
                while True:
                    dhagas.append(scheduler.spawn(int))
            except RuntimeError:
                refused += 1

        thread = threading.Thread(target=spawns)
        thread.start()
        time.sleep(0.0001 * (n % 10))
        scheduler.stop()
        thread.join()
        for d in dhagas:
            d.join(30)
            assert not d.is_alive()
        taken += len(dhagas)
    assert refused == 15 and taken > 0


@pytest.mark.parametrize("times", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_starts_and_stops_leak_nothing(times: int) -> None:
    dhaga.Scheduler().start().stop()
    dhaga.sleep(0)  # main code has its scheduler from its first wait on
    before, left = testing.open_fds(), set(schedulers)
    for _ in range(times):
        with dhaga.Scheduler() as scheduler:
            scheduler.spawn(dhaga.sleep)
    assert testing.open_fds() == before
    assert schedulers == left


def test_a_start_without_free_fds_raises_and_leaves_nothing_open() -> None:
    full = OSError(errno.EMFILE, "too many open files")
    before, left = testing.open_fds(), set(schedulers)
    scheduler = dhaga.Scheduler("late")
    with mock.patch("dhaga._kernel.run.attachment.new_poller", side_effect=full):
        assert error_of(scheduler.start) is full
    assert repr(scheduler) == "<Scheduler late stopped, 0 dhagas, 0 runnable>"
    assert isinstance(error_of(scheduler.start), RuntimeError)
    assert isinstance(error_of(lambda: scheduler.spawn(int)), RuntimeError)
    assert testing.open_fds() == before and schedulers == left


def test_a_thread_may_end_while_its_scheduler_is_finalized_as_garbage() -> None:
    """The collection goes on with a hub to which only the garbage refers: greenlet would regard the hub as leaked.

    The thread is held up in its last action until the collection has begun.
    """
    code = """
        import gc, threading, time, dhaga

        class LastThing:
            def __del__(self):
                go_on.wait(30)

        class Garbage:
            def __init__(self, scheduler):
                self.scheduler = scheduler
                self.cycle = self

            def __del__(self):
                go_on.set()
                while not self.scheduler.hub.dead:
                    time.sleep(0.001)
                for _ in range(50):  # until greenlet has cleaned up in this thread, by a pending call
                    time.sleep(0.001)
                print("finalized")

        def keep():
            of_thread.last = LastThing()
            kept.set()

        def use():
            scheduler = dhaga.Scheduler().start()
            scheduler.call(keep)
            kept.wait()
            garbage = Garbage(scheduler)
            scheduler.mode.begin_stop()
            while not scheduler.mode.ended:
                time.sleep(0.001)

        kept, go_on = threading.Event(), threading.Event()
        of_thread = threading.local()
        gc.disable()
        use()
        gc.collect()
        print("collected")
    """
    assert prints(code) == ["finalized", "collected"]


# ---- spawns after the cancel


def test_a_thread_whose_start_is_refused_counts_as_not_started() -> None:
    scheduler = dhaga.Scheduler()
    scheduler.start().stop()
    thread = dhaga.threading.Thread(target=int)
    with mock.patch("dhaga.threading.current_scheduler", lambda: scheduler), pytest.raises(RuntimeError):
        thread.start()
    assert not thread.is_alive() and thread not in dhaga.threading.enumerate()
    thread.start()
    thread.join()
