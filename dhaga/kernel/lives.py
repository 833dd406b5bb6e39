"""How a scheduler comes to its OS thread and its loop, and how it leaves them.

Implicit: for the main code of a thread, the loop running in a greenlet beside it. Guest: on a loop that somebody else
runs. Own thread: by ``Scheduler.start``. Orphan: in a child that was forked within a dhaga. Not here: who runs next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from asyncio import _set_running_loop
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from greenlet import enable_optional_cleanup, getcurrent, greenlet  # type: ignore[attr-defined]
from tornado.ioloop import IOLoop

from . import originals
from .errors import Cancelled, LeftBehind
from .microthread import Dhaga, Main
from .waiting import WaitQueue, here

if TYPE_CHECKING:
    from .scheduler import Scheduler

enable_optional_cleanup(False)
"""When an OS thread has ended, greenlet (3.5) drops the last reference to its first greenlet, as a leak, if
``gc.get_referrers`` does not find who has it: so it is with the ``hub`` of a stopped scheduler that is garbage and just
being finalized, maybe in another thread. Then the collection went on with what was freed: where each pool's thread
began with a collection, one of the first five pools crashed, on 3.11 and 3.12. And the end of each thread took 5 ms of
a process with 300,000 objects, to look through them all.
"""


class Life:
    """What every life has: whether it is over, and what becomes of an exception that belongs to the main code."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.main: Main | Dhaga | None = None
        self.thread: Any = None
        self.interrupted: BaseException | None = None

    def over(self) -> bool:
        """Tell whether the loop is to stop; asked after each lap."""
        return False

    def close(self) -> None:
        """End the hub and close the loop; every dhaga is done. From: the main code."""
        raise RuntimeError(f"{self.scheduler!r} has no main code that could close it")

    def interrupt(self, error: BaseException) -> None:
        """Take a SystemExit or KeyboardInterrupt that was raised on the hub or in a dhaga."""
        self.interrupted = error

    def at_home(self) -> None:
        """Do what is left at the end of a lap, on the hub."""

    def left_behind(self) -> None:
        """Become one that has ended, where nothing can be done for it: in a forked child, or on a closed loop."""
        self.scheduler.closing = True
        self.scheduler.disown()

    def run_hub(self) -> None:
        """Run the loop until the life is over: the body of a hub whose loop is the scheduler's own."""
        scheduler = self.scheduler
        scheduler.loop.call_soon(scheduler.lap)
        while not self.over():
            try:
                scheduler.ioloop.start()
            except BaseException as error:  # what asyncio lets through belongs to the main code
                self.interrupt(error)
                scheduler.loop.call_soon(scheduler.lap)


class Implicit(Life):
    """The scheduler of the main code of a thread: the loop runs whenever that parks."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        scheduler.attach(self, greenlet(self.run_hub), ioloop_over(scheduler.loop))
        self.main: Main = Main(scheduler)
        here.main = self.main
        scheduler.hub.parent = self.main.greenlet

    def over(self) -> bool:
        return self.scheduler.closing

    def interrupt(self, error: BaseException) -> None:
        """Hand it to the main code: at its park, or at its next one."""
        self.interrupted = error
        self.main.interrupt(error)

    def close(self) -> None:
        scheduler = self.scheduler
        scheduler.closing = True
        if scheduler.hub:  # it has started: let it run to its end
            _set_running_loop(scheduler.loop)
            scheduler.leave_to_hub()
            _set_running_loop(None)
        scheduler.detach()
        scheduler.ioloop.close()
        here.main = None


class Guest(Life):
    """The scheduler on a loop that runs in this thread already; its dhagas end, cancelled, when the host shuts that
    down.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        scheduler.attach(self, getcurrent(), IOLoop.current())
        scheduler.asleep = True
        here.guest = scheduler
        self.farewell = self.bid_farewell()
        with contextlib.suppress(StopIteration):
            self.farewell.__anext__().send(None)  # entered once, it is closed by loop.shutdown_asyncgens()

    def at_home(self) -> None:
        """Raise what belongs to the host's main code, on the hub: the host's loop passes it on."""
        error, self.interrupted = self.interrupted, None
        if error is not None:
            raise error

    async def bid_farewell(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.drain()

    async def drain(self) -> None:
        """Cancel every dhaga and wait, in a coroutine of the host, until the last has ended."""
        scheduler = self.scheduler
        scheduler.closing = True
        scheduler.cancel_all("the event loop shuts down")
        while scheduler.live:
            await asyncio.sleep(0 if scheduler.runnable() else 0.001)
        scheduler.detach()


class OwnThread(Life):
    """The scheduler of an OS thread that does nothing else. It has no main code: SystemExit ends one dhaga there,
    silently.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        if scheduler.selector is not None and scheduler.selector.pid != originals.getpid():
            raise LeftBehind(f"{scheduler!r} was made in the parent process: make another one after the fork")
        self.ended = False
        self.leavers = WaitQueue(scheduler, f"stop {scheduler.name}")
        self.started = originals.allocate_lock()
        self.started.acquire()
        self.thread = originals.Thread(target=self.run, name=scheduler.name, daemon=True)
        try:
            self.thread.start()
            self.started.acquire()
        except BaseException as error:
            if not isinstance(error, RuntimeError):  # a Ctrl-C, not the want of a thread: nobody else stops it
                self.begin_stop()
            raise

    def over(self) -> bool:
        return self.scheduler.closing and not self.scheduler.live

    def interrupt(self, error: BaseException) -> None:
        """Ignore it: it has ended its dhaga, as it ends a thread."""

    def run(self) -> None:
        scheduler = self.scheduler
        scheduler.attach(self, getcurrent(), ioloop_over(scheduler.loop))
        here.guest = scheduler
        scheduler.loop.call_soon(self.started.release)
        try:
            self.run_hub()
        finally:
            scheduler.detach()
            scheduler.ioloop.close()
            self.turn_away_the_late()
            self.ended = True
            self.leavers.wake_all()

    def turn_away_the_late(self) -> None:
        """End, unstarted, what another thread has brought in the moment of the end."""
        for dhaga in list(self.scheduler.live):
            if not dhaga:  # as a greenlet: not started
                dhaga.fault = Cancelled(f"{self.scheduler.name} has stopped")
                dhaga.end()

    def left_behind(self) -> None:
        super().left_behind()
        self.ended = True

    def stop(self, timeout: float | None) -> None:
        if self.scheduler.ident == originals.get_ident():
            raise RuntimeError(f"{self.scheduler!r} cannot be stopped from within: its caller would have to end first")
        self.begin_stop()
        self.wait_for_end(timeout)

    def wait_for_end(self, timeout: float | None) -> None:
        try:
            if not self.ended:
                self.leavers.wait(True, self.release_leavers, timeout)
        except TimeoutError:
            name, left = self.scheduler.name, ", ".join(map(repr, self.scheduler.in_order()))
            raise TimeoutError(f"{name} was told to stop, but these did not end: {left}") from None
        self.thread.join()

    def begin_stop(self) -> None:
        """Cancel all, soon, and only once: the ``finally`` that runs must not be cancelled too. From: any thread."""
        if not self.scheduler.closing:
            self.scheduler.closing = True
            self.scheduler.call(self.cancel_and_go_home)

    def cancel_and_go_home(self) -> None:
        self.scheduler.cancel_all(f"{self.scheduler.name} stops")
        self.scheduler.loop.call_soon(self.scheduler.go_home)

    def release_leavers(self) -> None:
        if self.ended:
            self.leavers.wake_all()


class Orphan(Life):
    """The scheduler of a forked child whose code goes on within a dhaga, which is its main code now."""

    def __init__(self, scheduler: Scheduler, survivor: Dhaga) -> None:
        super().__init__(scheduler)
        hub = greenlet(self.run)
        hub.parent = root_of(survivor)
        scheduler.attach(self, hub, ioloop_over(scheduler.loop))
        here.guest = scheduler
        self.main = survivor
        scheduler.live.add(survivor)
        survivor.belong(scheduler, survivor.rank)
        survivor.parent = hub

    def interrupt(self, error: BaseException) -> None:
        """Hand it to the survivor, or to what ends the process after it."""
        self.interrupted = error
        assert self.main is not None
        self.main.interrupt(error)

    def run(self, *_: object) -> None:  # with an argument, if the survivor ends before it has ever parked
        """Run the loop until the process ends; there is no main code below this hub to come back to."""
        try:
            self.run_hub()
        finally:
            os._exit(70)


def root_of(some: greenlet) -> greenlet:
    """Return the greenlet that the OS thread began with."""
    while (above := real_parent(some)) is not None:
        some = above
    return some


real_parent = greenlet.__dict__["parent"].__get__
"""A dhaga's own ``parent`` is a face for SQLAlchemy: see ``dhaga/aio.py``."""


def ioloop_over(loop: asyncio.AbstractEventLoop) -> IOLoop:
    """Return Tornado's face of a loop that we made, without making it anybody's current one."""
    ioloop: IOLoop = IOLoop(asyncio_loop=loop, make_current=False)
    return ioloop
