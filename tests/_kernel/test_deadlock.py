"""Deadlock: reported when nothing in the process could wake any waiter, and never before that."""

from __future__ import annotations

import gc
import os
import random
import signal
import socket
import sys
import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga import select
from dhaga import socket as dhaga_socket
from dhaga._kernel.run.fd_watch import FdWatcher
from dhaga._kernel.run.poller import MAX_CHEAP_SCAN
from dhaga._kernel.wait import deadlock
from dhaga.queue import Queue
from dhaga.testing import virtual_clock
from dhaga.threading import Event, Lock
from tests.kit.deadlocks import (
    lines_of,
    quick_look,  # noqa: F401  (used by all of them)
)
from tests.kit.scripts import Program, prints, run
from tests.kit.socket_cases import eventually


def test_a_wait_with_a_timeout_is_no_deadlock() -> None:
    with virtual_clock() as clock:
        d = dhaga.spawn(dhaga.park, "nothing")
        d.join(timeout=1000)
        with pytest.raises(TimeoutError), dhaga.Timeout(1000):
            d.join()
        sleeper = dhaga.spawn(dhaga.sleep, 1000)
        lock = Lock()
        lock.acquire()
        assert not lock.acquire(timeout=100)
        sleeper.join()
        assert clock() == 3000
        d.cancel()
        d.join()


def test_a_timer_or_callback_of_the_loop_is_no_deadlock() -> None:
    with virtual_clock():
        me = dhaga.current()
        me.scheduler.ioloop.call_later(1000, me.wake, "timer")
        assert dhaga.park("timer") == "timer"
        me.scheduler.ioloop.add_callback(me.wake, "callback")
        assert dhaga.park("callback") == "callback"


def test_waiting_for_an_fd_is_no_deadlock_nor_is_a_handler_somebody_has_added() -> None:
    """Another process may have the fd's other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        me = dhaga.current()
        ioloop = me.scheduler.ioloop
        pid = os.fork()
        if not pid:
            time.sleep(0.1)
            theirs.send(b"!")
            os._exit(0)
        ioloop.add_handler(ours, lambda fd, events: me.wake(ours.recv(1)), ioloop.READ)
        assert dhaga.park("handler") == b"!"
        ioloop.remove_handler(ours)
        assert lines_of(lambda: dhaga.park("handler")) == ["main code: waits for handler"]
        os.waitpid(pid, 0)


def test_polling_an_fd_whose_socket_was_read_before_is_no_deadlock() -> None:
    """Socket and poll have a watcher each, for one fd, as ``readline`` and then ``communicate`` of a Popen have."""
    ours, theirs = dhaga_socket.socketpair()
    with ours, theirs:
        pid = os.fork()
        if not pid:
            for each in b"12":
                time.sleep(0.1)
                os.write(theirs.fileno(), bytes([each]))
            os._exit(0)
        assert ours.recv(1) == b"1"
        assert select.select([ours], [], []) == ([ours], [], [])
        os.waitpid(pid, 0)


def test_a_call_in_a_helper_thread_is_no_deadlock_an_idle_helper_is_no_obstacle() -> None:
    d = dhaga.spawn(dhaga.offload, time.sleep, 0.1)
    d.join()
    assert lines_of(lambda: dhaga.park("nothing")) == ["main code: waits for nothing"]


def test_another_live_thread_might_wake_somebody_until_it_ends() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    d = dhaga.spawn(dhaga.park, "thread")
    with pytest.raises(TimeoutError), dhaga.Timeout(0.1):
        d.join()
    began = time.monotonic()
    threading.Thread(target=lambda: (time.sleep(0.1), gate.set())).start()
    assert lines_of(lambda: d.join())[1] == f"{d.name}: waits for thread"
    assert time.monotonic() - began >= 0.1
    thread.join()
    d.cancel()
    d.join()


def test_nobodys_frames_are_looked_at_while_a_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 may crash when it makes frame objects of running threads."""
    looks: list[dict[int, Any]] = []
    frames = sys._current_frames

    def counted() -> Any:
        looks.append(frames())
        return looks[-1]

    monkeypatch.setattr(sys, "_current_frames", counted)
    d = dhaga.spawn(dhaga.park, "thread")
    thread = threading.Thread(target=lambda: (time.sleep(0.1), d.wake()))
    thread.start()
    d.join()  # looks again and again
    assert not looks
    thread.join()
    d = dhaga.spawn(dhaga.park, "nobody")
    assert lines_of(d.join)
    assert looks
    d.cancel()
    d.join()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="only Python 3.11 collects while it makes frame objects")
@pytest.mark.parametrize("enabled", [True, False])
def test_no_collection_comes_while_frames_are_looked_at(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    frames, seen = sys._current_frames, []

    def watched() -> Any:
        seen.append(gc.isenabled())
        return frames()

    monkeypatch.setattr(sys, "_current_frames", watched)
    if not enabled:
        gc.disable()
    try:
        idents = set(deadlock.frames_of_threads())
        assert threading.get_ident() in idents and (seen, gc.isenabled()) == ([False], enabled)
    finally:
        gc.enable()


def test_two_threads_that_wait_for_each_other_are_one_deadlock() -> None:
    """One blocks its OS thread, one has dhagas; main code gets the error."""
    lock = Lock()

    def thread_code() -> None:
        with lock:
            event.wait()

    event = Event()
    thread = threading.Thread(target=thread_code, name="other")
    thread.start()
    while not lock.locked():
        time.sleep(0.001)
    d = dhaga.spawn(lock.acquire, name="d")
    assert lines_of(d.join) == [
        "main code: waits for join on <Dhaga d WAITING lock.acquire>",
        "other: waits for event.wait on <Event unset, 1 parked>",
        "d: waits for lock.acquire on <Lock held by other, 1 parked>",
    ]
    event.set()
    d.join()
    thread.join()


def test_main_code_that_blocks_on_a_scheduler_whose_dhagas_all_wait_gets_it() -> None:
    """It has no scheduler itself. The dhagas wait for each other, over two schedulers."""
    with dhaga.Scheduler("one") as one, dhaga.Scheduler("two") as two:
        a = one.spawn(dhaga.park, "nothing", name="a")
        b = two.spawn(a.join, name="b")
        assert lines_of(b.join) == [
            "main code: waits for join on <Dhaga b WAITING join>",
            "a: waits for nothing",
            "b: waits for join on <Dhaga a WAITING nothing>",
        ]
        assert lines_of(b.result)
        a.wake("enough")
        b.join()


def test_schedulers_that_have_nothing_to_do_are_no_obstacle() -> None:
    with dhaga.Scheduler(), dhaga.Scheduler() as worked:
        worked.spawn(int).join()
        d = dhaga.spawn(dhaga.park, "nothing", name="d")
        assert lines_of(d.join) == [
            "main code: waits for join on <Dhaga d WAITING nothing>",
            "d: waits for nothing",
        ]
        d.wake()
        d.join()


def test_a_guest_never_decides() -> None:
    assert prints("""
        import asyncio
        import dhaga

        async def main():
            d = dhaga.spawn(dhaga.park, "nothing")
            try:
                await asyncio.wait_for(asyncio.ensure_future(d), 0.1)
            except TimeoutError:
                print("no deadlock")

        asyncio.run(main())
    """) == ["no deadlock"]


def test_a_signal_handler_might_wake_somebody() -> None:
    """The default handlers, and Dhaga's own for Ctrl-C, do not count."""
    woken: list[bool] = []
    d = dhaga.spawn(dhaga.park, "signal")
    dhaga.sleep(0)
    former = signal.signal(signal.SIGUSR1, lambda *_: woken.append(d.wake("signal")))
    try:
        timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGUSR1,))
        timer.start()
        timer.join()
        d = dhaga.spawn(dhaga.park, "signal")
        dhaga.sleep(0)
        pid = os.fork()
        if not pid:
            time.sleep(0.1)
            os.kill(os.getppid(), signal.SIGUSR1)
            os._exit(0)
        assert d.result() == "signal"
        os.waitpid(pid, 0)
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert woken == [True, True]
    assert lines_of(lambda: dhaga.park("nothing"))


def test_what_is_under_way_between_schedulers_is_no_deadlock() -> None:
    """A cancel, a foreign callback or an item is on its way: its sender parks before the receiver has woken up."""
    items: Queue[int] = Queue()
    with dhaga.Scheduler() as other:
        dhaga.sleep(0)  # the main code has a scheduler: both sleep in their loops
        for n in range(300):
            d = other.spawn(dhaga.park, "nothing")
            while d.state != "WAITING":
                time.sleep(0)
            if n % 3 == 0:
                d.cancel()
            elif n % 3 == 1:
                other.ioloop.add_callback(d.wake)
            else:
                other.loop.call_soon_threadsafe(d.wake)
            d.join()
            d = other.spawn(lambda: items.put(items.get() + 1))
            items.put(n)
            d.join()
            assert items.get() == n + 1


def test_two_plain_threads_hand_over_without_a_false_alarm() -> None:
    """A thread that is marked as blocked, but was woken already, is not stuck."""
    ping: Queue[int] = Queue()
    pong: Queue[int] = Queue()

    def thread_code() -> None:
        while (n := ping.get()) >= 0:
            pong.put(n)

    thread = threading.Thread(target=thread_code)
    thread.start()
    dhaga.sleep(0)
    for n in range(1000):
        ping.put(n)
        assert pong.get() == n
    ping.put(-1)
    thread.join()


def test_a_ball_between_schedulers_and_threads_is_never_taken_for_a_deadlock() -> None:
    """All but one wait at any moment, and this one was just woken or is about to park: one picture must hold all."""
    hops = 0
    fields: list[Queue[bool]] = [Queue() for _ in range(6)]
    over = Event()

    def plays(field: Queue[bool], numbers: random.Random) -> None:
        nonlocal hops
        while field.get():
            hops += 1
            if hops == 3000:
                over.set()
                return
            kind, other = numbers.random(), numbers.choice(schedulers)
            if kind < 0.1:
                d = other.spawn(dhaga.park, "nothing")
                d.cancel()
                d.join()
            elif kind < 0.2:
                d = other.spawn(dhaga.park, "nothing")
                while d.state != "WAITING":
                    dhaga.sleep(0.0001)
                other.ioloop.add_callback(d.wake)
                d.join()
            numbers.choice(fields).put(True)

    with dhaga.Scheduler() as one, dhaga.Scheduler() as two:
        schedulers = [one, two]
        numbers = random.Random(1)
        for n, scheduler in enumerate([one, two, one, two]):
            scheduler.spawn(plays, fields[n], numbers)
        d = dhaga.spawn(plays, fields[4], numbers)
        thread = threading.Thread(target=plays, args=(fields[5], numbers))
        thread.start()
        fields[0].put(True)
        over.wait()
        for field in fields:
            field.put(False)
        d.join()
        thread.join()


def test_main_code_that_must_get_a_lock_back_is_told_once_it_has_it_and_the_log_tells_at_once() -> None:
    """``Condition.wait`` always ends with the lock held: the Deadlock waits for the lock, as a cancel does."""
    program = Program("""
        import signal
        import dhaga
        from dhaga.threading import Condition, Lock

        condition = Condition(Lock())

        def notifies():
            with condition:
                condition.notify()
                dhaga.park("nothing")

        d = dhaga.spawn(notifies, name="d")
        with condition:
            condition.wait()
    """)
    assert program.process.stderr is not None
    said = [program.process.stderr.readline().strip() for _ in range(4)]
    program.process.send_signal(signal.SIGKILL)  # before the asserts: a program left running would disturb others
    program.outcome()
    assert said[0].startswith("every dhaga waits")
    assert said[1:] == ["main code: waits for lock.acquire", said[2], "d: waits for nothing"]
    assert said[2].startswith("at <string>:15 in <module>")  # Python 3.13 adds the source line


def test_unhandled_it_ends_the_program() -> None:
    outcome = run("import dhaga; dhaga.spawn(dhaga.park, 'nothing', name='lost').join()")
    assert outcome.status == 1
    assert "Deadlock: every dhaga waits" in outcome.err and "\n  lost: waits for nothing\n" in outcome.err


# ---- beside many file descriptors


class CountingDict(dict[int, Any]):
    """Watchers, with the number of looks at all of them."""

    scans = 0

    def values(self) -> Any:
        self.scans += 1
        return super().values()


@pytest.mark.parametrize("n", [MAX_CHEAP_SCAN, MAX_CHEAP_SCAN + 1])
def test_many_idle_fds_are_not_all_looked_at_before_each_sleep(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(deadlock, "RECHECK_SECONDS", 1000)
    with dhaga.Scheduler() as scheduler:
        watchers = CountingDict({-fd: FdWatcher(scheduler, -fd) for fd in range(1, n + 1)})
        scheduler.poller.watchers = watchers
        for _ in range(20):
            scheduler.spawn(int).result()
            eventually(lambda: scheduler.asleep and scheduler._selecting())
        assert watchers.scans <= 2 if n > MAX_CHEAP_SCAN else watchers.scans > 2
        scheduler.poller.watchers = {}


@pytest.mark.parametrize("most", [0, 1])
def test_the_waits_of_many_dhagas_are_not_all_looked_at_before_each_sleep(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    looks: list[dhaga.Scheduler] = []
    monkeypatch.setattr(deadlock, "RECHECK_SECONDS", 1000)
    monkeypatch.setattr(deadlock, "MAX_CHEAP_LOOK", most)
    monkeypatch.setattr(deadlock.DeadlockWatch, "awaits_open_future", lambda watch: looks.append(watch.scheduler))
    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(dhaga.park, "nothing")
        for _ in range(20):
            scheduler.spawn(int).result()
            eventually(lambda: scheduler.asleep and scheduler._selecting())
        assert looks.count(scheduler) > 2 if most else looks.count(scheduler) <= 2
        d.cancel()


def test_a_deadlock_of_many_dhagas_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlock, "MAX_CHEAP_LOOK", 1)
    dhagas = [dhaga.spawn(dhaga.park, "nothing") for _ in range(3)]
    for _ in range(3):
        assert len(lines_of(dhagas[0].join)) == 4
    for each in dhagas:
        each.cancel()
        each.join()


def test_a_deadlock_beside_many_idle_fds_is_told() -> None:
    with virtual_clock():
        scheduler = dhaga.current().scheduler
        scheduler.poller.watchers = {-fd: FdWatcher(scheduler, -fd) for fd in range(1, 2 * MAX_CHEAP_SCAN)}
        for _ in range(3):
            lines_of(Event().wait)
        scheduler.poller.watchers = {}


def test_one_that_was_found_before_main_code_went_on_is_not_told_at_its_next_wait() -> None:
    """Two schedulers may find the same deadlock; the later report may come when main code waits for something else."""
    with dhaga.Scheduler() as other:
        released = Event()

        def look() -> None:
            eventually(lambda: deadlock.parked_main_code() is not None)
            deadlock.raise_in_main_code([other], deadlock.version - 1)
            released.set()

        thread = threading.Thread(target=look)
        thread.start()
        released.wait()
        thread.join()
