"""Run modes: the ways in which a scheduler gets its OS thread and its event loop, and leaves them at its end.

- ``ImplicitMode`` serves the main code of a thread. The loop runs in another greenlet, whenever the main code parks.
- ``GuestMode`` uses a loop that a host runs in this thread. The hub is the greenlet that runs the loop. Dhaga never
  stops this loop.
- ``OwnThreadMode`` runs in an OS thread that does nothing else, and that ``Scheduler.start`` has started.
- ``ForkedMode`` serves a child that a dhaga has forked. This dhaga is the child's main code. Below the hub there is no
  main code to return to.

A scheduler has a plain ``RunMode`` until another mode attaches it, and then keeps the other mode to its end. The modes
differ in four respects: the condition that stops the loop (``is_over``), the receiver of a dhaga's SystemExit or
KeyboardInterrupt (``interrupt``), the work after a lap (``on_lap_end``), and the shutdown (``close``, ``stop``,
``cancel_and_drain``). Not here: the choice of the next dhaga.
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
from .uncaught import is_outcome

if TYPE_CHECKING:
    from .scheduler import Scheduler

# When an OS thread has ended, greenlet 3.5 searches for owners of the thread's first greenlet with gc.get_referrers. If
# there is no owner, greenlet considers a reference leaked, and drops it. This line turns the search off, for two
# reasons. First, the hub of a stopped scheduler may be a thread's first greenlet. The hub has no owner while a garbage
# collection finalizes the hub, perhaps in another thread: the collection then used freed memory. On Python 3.11 and
# 3.12, if each thread of a pool began with a collection, one of the first five pools crashed. Second, in a process with
# 300,000 objects the search took 5 ms at the end of each thread.
enable_optional_cleanup(False)


# A limit for errors in a row, without a whole lap between them. At this limit, errors that stop the scheduler's own
# loop end the process (``run_hub``). Other errors only delay the next lap. Two errors in a row are normal: a signal
# handler may raise in the loop's ``select``, and another handler may raise at once.
MAX_FAILURES = 10

# Seconds until the next lap, once MAX_FAILURES laps in a row have failed and the process continues.
RETRY_SECONDS = 0.1


class RunMode:
    """Common part of all modes, and the mode of a scheduler that is not attached yet.

    ``main``: the scheduler's main code, or None. ``thread``: the OS thread that was made for the scheduler, or None.
    ``interrupted``: the SystemExit or KeyboardInterrupt that has told the program to end, or None.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.main: Main | Dhaga | None = None
        self.thread: Any = None
        self.interrupted: BaseException | None = None
        # The number of laps in a row that an error has ended early, and the number of whole laps before them.
        self.failed_laps: int = 0
        self.laps_before_failure: int = 0
        # The schedulers that serve_thread() has registered in this OS thread, by loop. The dictionary is empty before a
        # registration.
        self.guests: dict[Any, Scheduler] = {}

    def serve_thread(self) -> None:
        """Register the scheduler as its loop's scheduler in this OS thread."""
        this_thread.guest = self.scheduler
        self.guests = this_thread.guests
        self.guests[self.scheduler.loop] = self.scheduler

    def leave_thread(self) -> None:
        """Remove the scheduler from the thread. From: any thread."""
        self.guests.pop(self.scheduler.loop, None)

    def is_over(self) -> bool:
        """Return whether the loop must stop. The scheduler calls this method after each lap."""
        return False

    def close(self) -> None:
        """End the hub and close the loop, when every dhaga is DONE. From: the main code."""
        raise RuntimeError(f"{self.scheduler!r} has no main code that could close it")

    def interrupt(self, error: BaseException) -> None:
        """Handle a SystemExit or KeyboardInterrupt raised on the hub or in a dhaga."""
        self.interrupted = error

    def is_interrupt(self, error: BaseException) -> bool:
        """Return whether a KeyboardInterrupt in a dhaga comes from a Ctrl-C, and not from the dhaga's own code."""
        return error is self.interrupted

    def on_lap_end(self) -> None:
        """Do the remaining work at the end of a lap, on the hub."""

    def pause_after_failure(self) -> float:
        """Count a lap that an error has ended early. Returns: seconds until the next lap, 0 unless many have failed."""
        laps = self.scheduler.laps
        self.failed_laps = self.failed_laps + 1 if laps == self.laps_before_failure else 1
        self.laps_before_failure = laps
        return 0 if self.failed_laps < MAX_FAILURES else RETRY_SECONDS

    def end_failed_program(self, error: BaseException) -> NoReturn:
        """Print the error of a loop that cannot run any more, and end the process."""
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
        """End the scheduler without running any dhaga, in a forked child or after its loop was closed."""
        self.scheduler.closing = True
        self.scheduler._detach_thread()

    def run_hub(self) -> None:
        """Run the loop until ``is_over()``. This is the body of a hub whose loop belongs to the scheduler."""
        scheduler = self.scheduler
        scheduler.loop.call_soon(scheduler._lap)
        failures, laps = 0, scheduler.laps
        while not self.is_over():
            try:
                scheduler.ioloop.start()
            # asyncio passes a SystemExit or KeyboardInterrupt of a callback through run_forever(). Such an error is
            # meant for the main code.
            except BaseException as error:
                failures, laps = failures + 1 if scheduler.laps == laps else 1, scheduler.laps
                if failures == MAX_FAILURES:
                    self.end_failed_program(error)
                if not self.is_awaited(error):
                    self.interrupt(error)
                scheduler.loop.call_soon(scheduler._lap)

    def is_awaited(self, error: BaseException) -> bool:
        """Return whether an error that has stopped the loop is the outcome of a Task that a dhaga or main code awaits.

        Such an error is raised in the waiter, as in a thread that runs the coroutine itself.
        """
        # A waiter that was woken meanwhile keeps its target until it runs.
        waiters: list[Any] = [*self.scheduler.live, self.main]
        targets = [getattr(waiter, "wait_target", None) for waiter in waiters]
        return any(is_outcome(getattr(target, "future", None), error) for target in targets)


class ImplicitMode(RunMode):
    """Mode for the main code of a thread: the loop runs whenever the main code parks."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        attach_to_own_loop(self, greenlet(self.run_hub))
        self.main: Main = Main(scheduler)
        # A greenlet that ends switches to its parent. So when the hub ends, in discard(), the main code continues.
        scheduler.hub.parent = self.main.own_greenlet
        if this_thread.main is None:
            this_thread.main = self.main
            if hooks.on_main_code is not None:
                hooks.on_main_code(self.main)

    def is_over(self) -> bool:
        return self.scheduler.closing

    def interrupt(self, error: BaseException) -> None:
        """Pass the error to the main code, which raises it at its current or its next park."""
        self.interrupted = error
        self.main.cancel_with(error)

    def close(self) -> None:
        self.discard()
        this_thread.main = None

    def discard(self) -> None:
        """End the hub and close the loop of a scheduler that has no dhagas."""
        scheduler = self.scheduler
        scheduler.closing = True
        # A greenlet is true once it has started. A hub that has started must run to its end, which frees its frames.
        if scheduler.hub:
            scheduler._leave_to_hub()
        scheduler._detach()
        scheduler.ioloop.close()


class GuestMode(RunMode):
    """Mode for a loop that a host runs in this thread. The host's shutdown of the loop cancels and ends the dhagas."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        scheduler._attach(self, getcurrent(), IOLoop.current())
        scheduler.asleep = True
        self.serve_thread()
        # asyncio has no public hook for the shutdown of a loop. But loop.shutdown_asyncgens(), which asyncio.run and
        # Runner call, closes every async generator that was entered, and so runs the finally block of the generator
        # made here.
        self.shutdown_hook = self.drain_at_loop_shutdown()
        with contextlib.suppress(StopIteration):
            self.shutdown_hook.__anext__().send(None)

    def is_interrupt(self, error: BaseException) -> bool:
        """Return True: the host's Ctrl-C handler raises in any code, and the error looks like any other
        KeyboardInterrupt.
        """
        return True

    def on_lap_end(self) -> None:
        """Raise, on the hub, an error that is meant for the host's main code. The host's loop passes the error on."""
        error, self.interrupted = self.interrupted, None
        if error is not None:
            raise error

    async def drain_at_loop_shutdown(self) -> AsyncGenerator[None, None]:
        """Wait until the loop closes this generator, and then cancel all dhagas and wait for their ends."""
        try:
            yield
        finally:
            await self.cancel_and_drain()

    async def cancel_and_drain(self) -> None:
        """Cancel every dhaga, and wait in a coroutine of the host until the last dhaga has ended."""
        scheduler = self.scheduler
        scheduler.closing = True
        scheduler._cancel_for_end("the event loop shuts down")
        while scheduler.live:
            # The loop runs laps meanwhile. If no entry is runnable, a sleep of 1 ms prevents a busy loop.
            await asyncio.sleep(0 if scheduler.count_runnable() else 0.001)
        scheduler._detach()


class OwnThreadMode(RunMode, Guarded):
    """Mode in an OS thread that does nothing else. There is no main code: a SystemExit silently ends only the dhaga in
    which it is raised.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        if scheduler.selector is not None and scheduler.selector.pid != originals.getpid():
            raise LeftBehind(f"{scheduler!r} was made in the parent process: make another one after the fork")
        self.ended = False
        # The error of the attachment, which start() raises.
        self.failure: BaseException | None = None
        self.stop_waiters = WaitQueue(scheduler, f"stop {scheduler.name}")
        # A lock that is released once the scheduler is attached. Thread.start() may return before the attachment.
        self.started = originals.allocate_lock()
        self.started.acquire()
        self.thread = originals.Thread(target=self.run, name=scheduler.name, daemon=True)
        try:
            self.thread.start()
            self.started.acquire()
        except BaseException as error:
            # RuntimeError: the thread could not start. After a Ctrl-C in start(), the thread runs, and it is stopped
            # here, because no caller has received the scheduler.
            if not isinstance(error, RuntimeError):
                self.begin_stop()
            raise
        if self.failure is not None:
            raise self.failure

    def is_over(self) -> bool:
        return self.scheduler.closing and not self.scheduler.live

    def interrupt(self, error: BaseException) -> None:
        """Do nothing: the error ends only its dhaga, as a SystemExit ends only its thread."""

    def run(self) -> None:
        """Run the scheduler from attachment to detachment. This is the body of the OS thread."""
        scheduler = self.scheduler
        try:
            attach_to_own_loop(self, getcurrent())
        except BaseException as error:
            self.failure = error
            self.started.release()
            return
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
        """Stop the scheduler and wait for its thread. Raises: RuntimeError in the scheduler's thread; TimeoutError."""
        if self.scheduler.thread_ident == originals.get_ident():
            raise RuntimeError(f"{self.scheduler!r} cannot be stopped from within: its caller would have to end first")
        self.begin_stop()
        self.wait_for_end(timeout)

    def wait_for_end(self, timeout: float | None) -> None:
        """Wait until the thread has ended. Raises: TimeoutError with the names of the remaining dhagas."""
        if not self.ended and self.stop_waiters.wait(True, self.wake_stop_waiters, timeout) is TIMED_OUT:
            name, left = self.scheduler.name, ", ".join(map(repr, self.scheduler.in_order()))
            raise TimeoutError(f"{name} was told to stop, but these did not end: {left}")
        self.thread.join()

    def begin_stop(self) -> None:
        """Schedule a cancel of all dhagas. From: any thread."""
        # Only once: a second cancel would interrupt the finally blocks that run after the first cancel.
        began, self.scheduler.closing = self.scheduler.closing, True  # atomic
        if not began:
            self.scheduler.call(self.cancel_and_end_lap)

    def cancel_and_end_lap(self) -> None:
        self.scheduler._cancel_for_end(f"{self.scheduler.name} stops")
        # If there was no dhaga to cancel, no lap follows, and only this call leads to a call of is_over().
        self.scheduler.loop.call_soon(self.scheduler._end_lap)

    def wake_stop_waiters(self) -> None:
        """Wake the callers of stop() if the thread has ended."""
        if self.ended:
            self.stop_waiters.wake_all()


class ForkedMode(RunMode):
    """Mode of a child that a dhaga has forked. This dhaga, the survivor, is the child's main code."""

    def __init__(self, scheduler: Scheduler, survivor: Dhaga) -> None:
        super().__init__(scheduler)
        hub = greenlet(self.run)
        hub.parent = root_of(survivor)
        attach_to_own_loop(self, hub)
        self.serve_thread()
        self.main = survivor
        scheduler.live.add(survivor)
        survivor._assign_to(scheduler, survivor.own_priority)
        survivor.parent = hub

    def interrupt(self, error: BaseException) -> None:
        """Pass the error to the survivor, or, after the survivor's end, to the dhaga that ends the process."""
        self.interrupted = error
        assert self.main is not None
        self.main.cancel_with(error)

    def run(self, *_: object) -> None:
        """Run the loop until the process ends, because there is no main code below this hub to return to."""
        # The parameter ``_``: if the survivor ends before its first park, greenlet switches here with a value.
        try:
            self.run_hub()
        finally:
            os._exit(70)


def attach_to_own_loop(mode: RunMode, hub: Any) -> None:
    """Attach a mode's scheduler to this OS thread, with the scheduler's own loop. If this fails, close the loop.

    Raises: OSError if there are no free file descriptors.
    """
    scheduler = mode.scheduler
    ioloop = ioloop_over(scheduler.loop)
    try:
        scheduler._attach(mode, hub, ioloop)
    except BaseException:
        scheduler.closing = True
        ioloop.close()
        raise


def root_of(some: greenlet) -> greenlet:
    """Return the greenlet with which the OS thread began."""
    while (above := real_parent(some)) is not None:
        some = above
    return some


# The getter of greenlet's own ``parent``, because ``Dhaga.parent`` may be a property for SQLAlchemy: see ``dhaga/aio``.
real_parent = greenlet.__dict__["parent"].__get__


def ioloop_over(loop: asyncio.AbstractEventLoop) -> IOLoop:
    """Return a Tornado IOLoop that wraps the scheduler's loop, without making it the current loop of the thread."""
    # IOLoop() is not called, because its first call imports this class: a signal handler that interrupts this import
    # could not make an IOLoop.
    ioloop: IOLoop = AsyncIOLoop(asyncio_loop=loop, make_current=False)
    return ioloop
