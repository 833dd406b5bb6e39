"""The loop of a scheduler: what its selector knows of its sleep, and the self-pipe that ends it at a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import dhaga
from dhaga import socket as parking_socket
from dhaga._kernel import originals
from dhaga._kernel.fast.accelerator import fast_paths
from dhaga._kernel.run.ioloop_poller import IOLoopPoller
from dhaga._kernel.run.loop import HubSelector, new_loop
from dhaga.testing import settle
from dhaga.threading import Event

MANY_YIELDS = 1_000_000
"""Yields of at least a second: after 5 ms a thread may demand the interpreter lock, and then gets it."""


def test_a_sleeping_loop_is_woken_by_another_thread_and_by_nothing_else() -> None:
    with dhaga.Scheduler() as scheduler:
        me = scheduler.spawn(dhaga.park, "nothing")
        while me.reason != "nothing" or not scheduler.asleep:
            dhaga.sleep(0.001)
        assert scheduler.spawn(lambda: "woken").result(30) == "woken"
        assert me.reason == "nothing"
        me.wake("at last")
        assert me.result(30) == "at last"


def test_the_loop_of_a_scheduler_is_made_without_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    # A handler that parks would need the scheduler that is being made.
    caplog.set_level(logging.DEBUG, "asyncio")
    with dhaga.Scheduler() as scheduler:
        assert scheduler.spawn(lambda: "ran").result(30) == "ran"
    assert not caplog.records
    asyncio.SelectorEventLoop(selectors.SelectSelector()).close()
    assert [record.getMessage() for record in caplog.records] == ["Using selector: SelectSelector"]
    caplog.clear()


def test_a_log_handler_that_waits_may_serve_the_first_line_of_a_program() -> None:
    program = """
import logging, sys, time
class Slow(logging.StreamHandler):
    def emit(self, record):
        time.sleep(0.001)
        super().emit(record)
logging.basicConfig(handlers=[Slow(sys.stdout)], level=logging.DEBUG)
logging.debug("first")
"""
    command = [sys.executable, "-m", "dhaga", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("DEBUG:root:first\n", "")


def test_a_handler_that_a_program_has_added_shows_in_the_selector() -> None:
    dhaga.sleep(0)
    scheduler = dhaga.current().scheduler
    selector = scheduler.selector
    assert selector is not None and selector.only_own_fds()
    one, other = socket.socketpair()
    with one, other:
        scheduler.ioloop.add_handler(one, lambda *_: None, scheduler.ioloop.READ)
        assert not selector.only_own_fds()
        scheduler.ioloop.remove_handler(one)
    assert selector.only_own_fds()


def test_a_select_that_is_about_to_return_can_be_told_and_one_that_was_closed_counts_as_such() -> None:
    dhaga.sleep(0)
    scheduler = dhaga.current().scheduler
    selector = scheduler.selector
    assert selector is not None
    settle()
    reader, writer = os.pipe()
    scheduler.loop.add_reader(reader, lambda: None)
    assert not selector.would_return()
    os.write(writer, b"!")
    assert selector.would_return()
    scheduler.loop.remove_reader(reader)
    os.close(reader)
    os.close(writer)
    closed = type(selector)()
    closed.close()
    assert closed.would_return()


LATE = 60


@pytest.fixture
def event() -> Iterator[Event]:
    """An event that is set by a timer after LATE seconds, if the test has not set it before: then the wake was lost."""
    event = Event()
    timer = threading.Timer(LATE, event.set)
    timer.start()
    began = time.monotonic()
    yield event
    timer.cancel()
    assert event.is_set() and time.monotonic() - began < LATE / 2, "the wake was lost"


def once(fn: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls ``fn`` the first time only."""
    calls = [fn]
    return lambda: calls.pop()() if calls else None


def patch_before(obj: Any, name: str, fn: Callable[[], object]) -> None:
    """Replace a method by one that first calls ``fn()``, once, as a collection there calls finalizers."""
    method, call = getattr(obj, name), once(fn)
    setattr(obj, name, lambda *args: (call(), method(*args))[1])


@pytest.mark.parametrize(("where", "timeout"), [("look", None), ("select", None), ("select", LATE)])
def test_a_wake_by_a_finalizer_just_before_the_sleep_is_not_lost(
    event: Event, where: str, timeout: float | None
) -> None:
    dhaga.sleep(0)
    if where == "look" and isinstance(dhaga.current().scheduler.poller, IOLoopPoller):
        event.set()
        pytest.skip("the loop watches the fds itself, so that the deadlock watch does not ask this poller")
    ours, theirs = parking_socket.socketpair()
    reader = dhaga.spawn(ours.recv, 1)
    dhaga.sleep(0.001)
    scheduler = reader.scheduler
    if where == "look":
        patch_before(scheduler.poller, "has_waiters", event.set)
    else:
        patch_before(scheduler.selector, "select", event.set)
    if timeout is not None:
        event.wait(timeout)
    else:
        event.wait()
    theirs.close()
    reader.join()
    ours.close()


@pytest.mark.skipif(
    not isinstance(fast_paths, ModuleType),
    reason="a look from Python releases the interpreter lock",
)
def test_a_busy_scheduler_lets_new_threads_have_the_interpreter_lock() -> None:
    started: list[int] = []

    def start_and_yield() -> list[int]:
        yields = []
        for begun in range(10):
            originals.start_new_thread(started.append, (begun,))
            yields.append(0)
            while len(started) == begun and yields[-1] < MANY_YIELDS:
                dhaga.sleep(0)
                yields[-1] += 1
        return yields

    assert max(dhaga.spawn(start_and_yield).result()) < MANY_YIELDS


def test_a_wake_by_a_finalizer_just_before_the_sleep_of_a_hosts_loop_is_not_lost(event: Event) -> None:
    class Selector(selectors.DefaultSelector):
        """A selector in which a collection comes once the loop has decided to sleep without a timeout."""

        def select(self, timeout: float | None = None) -> Any:
            if timeout is None:
                set_once()
            return super().select(timeout)

    async def main() -> None:
        await dhaga.spawn(event.wait)

    def host() -> None:
        loop = asyncio.SelectorEventLoop(selector)
        loop.run_until_complete(main())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    selector, set_once = Selector(), once(event.set)
    thread = threading.Thread(target=host)
    thread.start()
    thread.join()


def test_a_handler_that_raises_while_a_loop_is_made_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come at the first wait of main code, which makes its scheduler."""
    said: list[object] = []

    def interrupt(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", said.append)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "_make_self_pipe", interrupt)
    selector = HubSelector()
    with pytest.raises(KeyboardInterrupt):
        new_loop(selector)
    gc.collect()
    assert said == [] and selector.get_map() is None
