"""Makes ``asyncio.get_event_loop()`` in blocking code (in dhagas and main code) return the loop that ``await_`` uses.

Since Python 3.14, the standard function raises RuntimeError if no loop is running or set. So objects that bind to the
function's result (asyncpg's pools, ``asyncio.Future``, ``asyncio.gather``, Tornado's ``IOLoop.current()``) could not be
awaited from a dhaga or from main code. After ``install``, the function returns the loop of the caller's scheduler
instead. A loop that is running, or that ``asyncio.set_event_loop`` has set, still has priority.

Some programs run and close the loop that they get. So the returned loop becomes a ``SharedLoop``. In blocking code, its
``run_until_complete`` and ``run_forever`` wait while the scheduler runs the loop. ``stop`` ends calls of
``run_forever``, and ``close`` does nothing while the scheduler needs the loop.

Rejected: installation at the import of ``dhaga``, because many programs never use ``await_``. Rejected: installation on
Python 3.11 to 3.13, where the standard function creates a loop in the main thread, and programs may run that loop in
another thread. Python 3.16 offers no hook, because it has no event loop policies.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import _get_running_loop, events
from contextvars import ContextVar
from typing import Any

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.process.current_scheduler import current_scheduler
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.wait.current import on_event_loop, this_thread
from ._await import await_

HAS_HOOK = (3, 14) <= sys.version_info < (3, 16)
"""Whether the standard function uses an event loop policy, and raises an error if there is no current loop."""


def install() -> None:
    """Make ``asyncio.get_event_loop()`` return the loop of the caller's scheduler instead of raising.

    A policy with its own ``get_event_loop``, or a policy that the program sets later, is not changed.
    """
    if not HAS_HOOK:
        return
    asyncio_events: Any = events
    policy = asyncio_events._get_event_loop_policy()
    kind = type(policy)
    if getattr(kind, "get_event_loop", None) is asyncio_events._BaseDefaultEventLoopPolicy.get_event_loop:
        # Change the class of the policy, because a new policy would not know the loops that threads have set.
        policy.__class__ = type(kind.__name__, (PolicyOfBlockingCode, kind), {"__module__": kind.__module__})


asked_by: ContextVar[int] = ContextVar("asked_by")
"""The ``id`` of the greenlet that called ``get_event_loop``. Callbacks that this greenlet adds inherit the variable."""


class PolicyOfBlockingCode:
    """Mixin for an event loop policy. If no loop was set, the current loop belongs to the caller's scheduler."""

    def get_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that was set for this thread, or else the loop of the caller's scheduler."""
        try:
            return super().get_event_loop()  # type: ignore[misc,no-any-return]
        except RuntimeError:
            scheduler = blocking_scheduler()
            if scheduler is None:
                raise
            asked_by.set(id(getcurrent()))
            return shared_loop(scheduler)


def blocking_scheduler() -> Scheduler | None:
    """Return the scheduler on which the caller may park; None on a hub, in a foreign greenlet or in a plain OS thread.

    For the main code of the process, create a scheduler if needed. The main code of another thread has a scheduler only
    if this code has already used Dhaga.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    main = this_thread.main
    if main is not None:
        return main.scheduler if main.own_greenlet is me else None
    first = me.parent is None and originals.current_thread() is originals.main_thread()
    return current_scheduler() if first and not on_event_loop() else None


def shared_loop(scheduler: Scheduler) -> asyncio.AbstractEventLoop:
    """Return the loop of a scheduler. Make the loop a SharedLoop if the scheduler has created it."""
    loop: Any = scheduler.loop
    if scheduler.selector is not None and not isinstance(loop, SharedLoop):
        loop.__class__ = SharedLoop
        loop.scheduler = scheduler
        loop.forever = {}
    return loop  # type: ignore[no-any-return]


class SharedLoop(originals.SelectorEventLoop):
    """The loop of a scheduler. In blocking code, the loop seems not to run, and its ``run_…`` methods await instead.

    On the hub, and in coroutines and callbacks, the loop behaves like a standard loop, except for ``close``. In other
    threads, its ``run_…`` methods raise RuntimeError.
    """

    scheduler: Scheduler
    forever: dict[asyncio.Future[None], int]
    """The futures that ``stop`` completes, each with the ``id`` of the greenlet that has called ``run_forever``."""

    def is_for_caller(self) -> bool:
        """Return whether the caller is blocking code of this loop's scheduler."""
        if _get_running_loop() is not None:
            return False
        me, main = getcurrent(), this_thread.main
        if isinstance(me, Dhaga):
            return me.scheduler is self.scheduler
        return main is not None and main.own_greenlet is me and main.scheduler is self.scheduler

    def is_running(self) -> bool:
        """Return whether the loop runs. In blocking code, which is outside the loop's coroutines, return False."""
        return super().is_running() and not self.is_for_caller()

    def run_until_complete(self, future: Any) -> Any:
        """Await a coroutine or future. Parks: ``await``, in blocking code. Raises: RuntimeError in other code."""
        if self.is_for_caller():
            return await_(future)
        self.check_thread()
        return super().run_until_complete(future)

    def run_forever(self) -> None:
        """Wait for ``stop``. Parks: ``await``, in blocking code. On the hub, run the loop."""
        if not self.is_for_caller():
            self.check_thread()
            super().run_forever()
            return
        stopped = self.create_future()
        self.forever[stopped] = id(getcurrent())
        try:
            await_(stopped)
        finally:
            del self.forever[stopped]

    def check_thread(self) -> None:
        """Check that the caller runs in the scheduler's thread. Raises: RuntimeError."""
        if originals.get_ident() != self.scheduler.thread_ident:
            raise RuntimeError(
                f"this loop belongs to {self.scheduler!r}, and only its thread runs it: make a loop for this thread "
                "with asyncio.new_event_loop()"
            )

    def stop(self) -> None:
        """End the ``run_forever`` call of the greenlet that added the current callback. If this greenlet has made no
        such call, end all calls of ``run_forever``.
        """
        own = [stopped for stopped, caller in self.forever.items() if caller == asked_by.get(0)]
        for stopped in own or self.forever:
            if not stopped.done():
                stopped.set_result(None)
        super().stop()

    def close(self) -> None:
        """Close the loop if its scheduler has ended. Otherwise, do nothing, because the scheduler needs the loop."""
        if not self.scheduler.thread_ident:
            super().close()
