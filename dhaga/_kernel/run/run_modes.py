"""Run modes: how a scheduler gets its OS thread and its loop, and how it leaves them.

- ``ImplicitMode``: for the main code of a thread. The loop runs in a greenlet beside it, whenever the main code parks.
- ``GuestMode``: on a loop that a host runs in this thread. The hub is the greenlet that runs it; we never stop it.
- ``OwnThreadMode``: in an OS thread that does nothing else, started by ``Scheduler.start``.
- ``ForkedMode``: in a child forked within a dhaga. That dhaga is the main code now, and there is none below its hub.

A scheduler has a plain ``RunMode`` until one of these attaches it, and keeps that mode to its end. The modes differ in
four respects: when the loop stops (``is_over``), where a SystemExit or KeyboardInterrupt of a dhaga goes
(``interrupt``), the work after a lap (``on_lap_end``), and the end (``close``, ``stop``, ``cancel_and_drain``). Not
here: which dhaga runs next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import traceback
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import enable_optional_cleanup, getcurrent, greenlet  # type: ignore[attr-defined]
from tornado.ioloop import IOLoop
from tornado.platform.asyncio import AsyncIOLoop

from .. import hooks, originals
from ..errors import LeftBehind
from ..interpreter.guards import Guarded, fence
from ..interpreter.requirements import FREE_THREADED
from ..wait.current import this_thread
from ..wait.wait_queue import WaitQueue
from ..wait.waiter import TIMED_OUT
from .main_code import Main
from .microthread import Dhaga

if TYPE_CHECKING:
    from .scheduler import Scheduler

# When an OS thread has ended, greenlet 3.5 drops a reference to its first greenlet as leaked if gc.get_referrers finds
# no owner. The hub of a stopped scheduler has none while it is finalized as garbage, perhaps in another thread. The
# collection then used freed memory. On Python 3.11 and 3.12, if each thread of a pool began with a collection, one of
# the first five pools crashed. And the scan took 5 ms at the end of each thread in a process with 300,000 objects.
enable_optional_cleanup(False)


# The number of errors in a row, without a lap between, after which a loop runs no more. A handler of a signal may raise
# in its select, and another one at once.
MAX_FAILURES = 10


class RunMode:
    """Common part of all modes, and the mode of a scheduler that is not attached yet.

    ``main``: its main code, if it has any; ``thread``: the OS thread made for it; ``interrupted``: the SystemExit or
    KeyboardInterrupt that told the program to end.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.main: Main | Dhaga | None = None
        self.thread: Any = None
        self.interrupted: BaseException | None = None
        # The guests of its OS thread, by loop; empty if the scheduler is no guest.
        self.guests: dict[Any, Scheduler] = {}

    def serve_thread(self) -> None:
        """Register as this loop's guest in this OS thread."""
        this_thread.guest = self.scheduler
        self.guests = this_thread.guests
        self.guests[self.scheduler.loop] = self.scheduler

    def leave_thread(self) -> None:
        """Remove the scheduler from the thread. From: any thread."""
        self.guests.pop(self.scheduler.loop, None)

    def is_over(self) -> bool:
        """Return whether the loop must stop; asked after each lap."""
        return False

    def close(self) -> None:
        """End the hub and close the loop; every dhaga is done. From: the main code."""
        raise RuntimeError(f"{self.scheduler!r} has no main code that could close it")

    def interrupt(self, error: BaseException) -> None:
        """Handle a SystemExit or KeyboardInterrupt raised on the hub or in a dhaga."""
        self.interrupted = error

    def is_interrupt(self, error: BaseException) -> bool:
        """Return whether a KeyboardInterrupt in a dhaga is from a Ctrl-C, and not raised by the dhaga's own code."""
        return error is self.interrupted

    def on_lap_end(self) -> None:
        """Do the remaining work at the end of a lap, on the hub."""

    def end_failed_program(self, error: BaseException) -> NoReturn:
        """End the process by the error of a loop that can run nothing any more."""
        with contextlib.suppress(BaseException):
            traceback.print_exception(error)
            print(
                f"dhaga: the event loop of {self.scheduler.name} can run nothing any more, so the program ends: "
                "have its file descriptors been closed?",
                file=sys.stderr,
                flush=True,
            )
        os._exit(1)

    def mark_left_in_parent(self) -> None:
        """End the scheduler without running anything: in a forked child, or on a closed loop."""
        self.scheduler.closing = True
        self.scheduler._detach_thread()

    def run_hub(self) -> None:
        """Run the loop until the mode is over: the body of a hub whose loop is the scheduler's own."""
        scheduler = self.scheduler
        scheduler.loop.call_soon(scheduler._lap)
        failures, laps = 0, scheduler.laps
        while not self.is_over():
            try:
                scheduler.ioloop.start()
            # asyncio passes SystemExit and KeyboardInterrupt of a callback through run_forever(): they belong to the
            # main code.
            except BaseException as error:
                failures, laps = failures + 1 if scheduler.laps == laps else 1, scheduler.laps
                if failures == MAX_FAILURES:
                    self.end_failed_program(error)
                self.interrupt(error)
                scheduler.loop.call_soon(scheduler._lap)


class ImplicitMode(RunMode):
    """Mode for the main code of a thread: the loop runs whenever the main code parks."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        scheduler._attach(self, greenlet(self.run_hub), ioloop_over(scheduler.loop))
        self.main: Main = Main(scheduler)
        # A greenlet that ends switches to its parent: when the hub ends, in close(), the main code continues.
        scheduler.hub.parent = self.main.own_greenlet
        if this_thread.main is None:
            this_thread.main = self.main  # atomic
            if hooks.on_main_code is not None:
                hooks.on_main_code(self.main)

    def is_over(self) -> bool:
        return self.scheduler.closing

    def interrupt(self, error: BaseException) -> None:
        """Pass it to the main code: at its park, or at its next one."""
        self.interrupted = error
        self.main.cancel_with(error)

    def close(self) -> None:
        self.discard()
        this_thread.main = None

    def discard(self) -> None:
        """End the hub and close the loop of a scheduler that has no dhagas."""
        scheduler = self.scheduler
        scheduler.closing = True
        # A greenlet is true once it has started: this one runs to its end, and its frames are freed.
        if scheduler.hub:
            scheduler._leave_to_hub()
        scheduler._detach()
        scheduler.ioloop.close()


class GuestMode(RunMode):
    """Mode on a loop that a host runs in this thread; the host's shutdown of that loop cancels and ends the dhagas."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        scheduler._attach(self, getcurrent(), IOLoop.current())
        scheduler.asleep = True
        self.serve_thread()
        # asyncio has no public hook for the shutdown of a loop. It does close every async generator that has been
        # entered: loop.shutdown_asyncgens(), which asyncio.run and Runner call, runs the finally of this one.
        self.shutdown_hook = self.drain_at_loop_shutdown()
        with contextlib.suppress(StopIteration):
            self.shutdown_hook.__anext__().send(None)

    def is_interrupt(self, error: BaseException) -> bool:
        """Return True: the host's handler of Ctrl-C raises in any running code, and leaves no mark."""
        return True

    def on_lap_end(self) -> None:
        """Raise an error that belongs to the host's main code, on the hub: the host's loop passes it on."""
        error, self.interrupted = self.interrupted, None
        if error is not None:
            raise error

    async def drain_at_loop_shutdown(self) -> AsyncGenerator[None, None]:
        """Wait for ever; drain when closed."""
        try:
            yield
        finally:
            await self.cancel_and_drain()

    async def cancel_and_drain(self) -> None:
        """Cancel every dhaga and wait, in a coroutine of the host, until the last has ended."""
        scheduler = self.scheduler
        scheduler.closing = True
        scheduler._cancel_for_end("the event loop shuts down")
        while scheduler.live:
            # The loop runs the laps meanwhile. With nothing runnable, 1 ms keeps the wait from spinning.
            await asyncio.sleep(0 if scheduler.count_runnable() else 0.001)
        scheduler._detach()


class OwnThreadMode(RunMode, Guarded):
    """Mode in an OS thread that does nothing else. Without main code, SystemExit ends one dhaga there, silently."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        if scheduler.selector is not None and scheduler.selector.pid != originals.getpid():
            raise LeftBehind(f"{scheduler!r} was made in the parent process: make another one after the fork")
        self.ended = False
        self.stop_waiters = WaitQueue(scheduler, f"stop {scheduler.name}")
        # A lock used as the event "attached": Thread.start() returns before the scheduler accepts dhagas.
        self.started = originals.allocate_lock()
        self.started.acquire()
        self.thread = originals.Thread(target=self.run, name=scheduler.name, daemon=True)
        try:
            self.thread.start()
            self.started.acquire()
        except BaseException as error:
            # A Ctrl-C in start(), unlike the failure to start a thread: the thread runs, and no caller has the
            # scheduler to stop it.
            if not isinstance(error, RuntimeError):
                self.begin_stop()
            raise

    def is_over(self) -> bool:
        return self.scheduler.closing and not self.scheduler.live

    def interrupt(self, error: BaseException) -> None:
        """Do nothing: like a thread's SystemExit, it ends only its dhaga."""

    def run(self) -> None:
        """Body of the OS thread."""
        scheduler = self.scheduler
        scheduler._attach(self, getcurrent(), ioloop_over(scheduler.loop))
        self.serve_thread()
        scheduler.loop.call_soon(self.started.release)
        try:
            self.run_hub()
        finally:
            scheduler._detach()
            scheduler.ioloop.close()
            self.ended = True
            if FREE_THREADED:
                fence(self.stop_waiters)
            self.stop_waiters.wake_all()

    def mark_left_in_parent(self) -> None:
        super().mark_left_in_parent()
        self.ended = True

    def stop(self, timeout: float | None) -> None:
        """Stop the scheduler and wait for its thread. Raises: RuntimeError from within; TimeoutError."""
        if self.scheduler.thread_ident == originals.get_ident():
            raise RuntimeError(f"{self.scheduler!r} cannot be stopped from within: its caller would have to end first")
        self.begin_stop()
        self.wait_for_end(timeout)

    def wait_for_end(self, timeout: float | None) -> None:
        """Wait until the thread has ended. Raises: TimeoutError naming the dhagas that have not."""
        if not self.ended and self.stop_waiters.wait(True, self.wake_stop_waiters, timeout) is TIMED_OUT:
            name, left = self.scheduler.name, ", ".join(map(repr, self.scheduler.in_order()))
            raise TimeoutError(f"{name} was told to stop, but these did not end: {left}")
        self.thread.join()

    def begin_stop(self) -> None:
        """Cancel all dhagas, soon. From: any thread."""
        # Only once: a second cancel would interrupt the finally blocks that run after the first.
        began, self.scheduler.closing = self.scheduler.closing, True  # atomic
        if not began:
            self.scheduler.call(self.cancel_and_end_lap)

    def cancel_and_end_lap(self) -> None:
        self.scheduler._cancel_for_end(f"{self.scheduler.name} stops")
        # With no dhaga left to cancel, no other lap would run, and is_over() would not be asked.
        self.scheduler.loop.call_soon(self.scheduler._end_lap)

    def wake_stop_waiters(self) -> None:
        """Wake the callers of stop() if the thread has ended."""
        if self.ended:
            self.stop_waiters.wake_all()


class ForkedMode(RunMode):
    """Mode of a forked child whose code goes on within a dhaga, which is its main code now."""

    def __init__(self, scheduler: Scheduler, survivor: Dhaga) -> None:
        super().__init__(scheduler)
        hub = greenlet(self.run)
        hub.parent = root_of(survivor)
        scheduler._attach(self, hub, ioloop_over(scheduler.loop))
        self.serve_thread()
        self.main = survivor
        scheduler.live.add(survivor)
        survivor._assign_to(scheduler, survivor.own_priority)
        survivor.parent = hub

    def interrupt(self, error: BaseException) -> None:
        """Pass it to the survivor, or to the code that ends the process after it."""
        self.interrupted = error
        assert self.main is not None
        self.main.cancel_with(error)

    def run(self, *_: object) -> None:
        """Run the loop until the process ends; there is no main code below this hub to return to."""
        # ``_``: if the survivor ends before its first park, its end switches here with a value.
        try:
            self.run_hub()
        finally:
            os._exit(70)


def root_of(some: greenlet) -> greenlet:
    """Return the greenlet that the OS thread began with."""
    while (above := real_parent(some)) is not None:
        some = above
    return some


# A dhaga's own ``parent`` is a property for SQLAlchemy: see ``dhaga/aio``.
real_parent = greenlet.__dict__["parent"].__get__


def ioloop_over(loop: asyncio.AbstractEventLoop) -> IOLoop:
    """Return Tornado's IOLoop over a loop that we made, without making it the thread's current one."""
    # Not IOLoop(): its first call imports this class, and a handler of a signal that strikes the import could make no
    # other.
    ioloop: IOLoop = AsyncIOLoop(asyncio_loop=loop, make_current=False)
    return ioloop
