"""The result of ``asyncio.get_event_loop()`` in blocking code: the loop on which ``await_`` runs coroutines.

From Python 3.14 on, the standard function raises RuntimeError if no loop is running or set. Objects that bind to its
result (asyncpg's pools, ``asyncio.Future``, ``asyncio.gather``, Tornado's ``IOLoop.current()``) could not be awaited
from a dhaga or from main code. ``install`` returns the caller's loop instead of that error. A loop that is running, or
that ``asyncio.set_event_loop`` has set, still comes first.

Some programs catch the error, and create, run and close a loop. So the returned loop becomes a ``SharedLoop``: such
calls from blocking code neither start a second run nor end the scheduler's, nor another dhaga's.

Rejected: installing at the import of ``dhaga``, also in programs that never use ``await_``. Rejected: installing on
Python 3.11 to 3.13. There the standard function creates a loop in the main thread, and programs may run that loop in
another thread. From 3.16 on there is no hook: event loop policies are gone.
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
"""Whether the standard function asks an event loop policy, and raises if there is no current loop."""


def install() -> None:
    """Make ``asyncio.get_event_loop()`` return the loop of the caller's scheduler instead of raising.

    The program's policy is not changed if it has its own ``get_event_loop``, or is set later.
    """
    if not HAS_HOOK:
        return
    asyncio_events: Any = events
    policy = asyncio_events._get_event_loop_policy()
    kind = type(policy)
    if getattr(kind, "get_event_loop", None) is asyncio_events._BaseDefaultEventLoopPolicy.get_event_loop:
        # Not a new policy: this one knows the loops that threads have set.
        policy.__class__ = type(kind.__name__, (PolicyOfBlockingCode, kind), {"__module__": kind.__module__})


asked_by: ContextVar[int] = ContextVar("asked_by")
"""The dhaga that got its loop by ``get_event_loop``. Callbacks that it adds have it in their context."""


class PolicyOfBlockingCode:
    """Mixin for an event loop policy that returns the loop of the caller's scheduler."""

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

    The main code of the process gets one; another thread's main code only has one if it has used Dhaga before.
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
    """Return the loop of a scheduler, guarded if the scheduler made it."""
    loop: Any = scheduler.loop
    if scheduler.selector is not None and not isinstance(loop, SharedLoop):
        loop.__class__ = SharedLoop
        loop.scheduler = scheduler
        loop.forever = {}
    return loop  # type: ignore[no-any-return]


class SharedLoop(originals.SelectorEventLoop):
    """The loop of a scheduler, for blocking code: there it is not running, and to run it means to await.

    On the hub, in coroutines and callbacks, and for other threads it is the standard loop.
    """

    scheduler: Scheduler
    forever: dict[asyncio.Future[None], int]
    """The callers of ``run_forever``, each by the future that ``stop`` completes."""

    def is_for_caller(self) -> bool:
        """Return whether the caller is blocking code that this loop wakes."""
        if _get_running_loop() is not None:
            return False
        me, main = getcurrent(), this_thread.main
        if isinstance(me, Dhaga):
            return me.scheduler is self.scheduler
        return main is not None and main.own_greenlet is me and main.scheduler is self.scheduler

    def is_running(self) -> bool:
        """Return whether the loop runs; False in blocking code, as for any loop outside its coroutines."""
        return super().is_running() and not self.is_for_caller()

    def run_until_complete(self, future: Any) -> Any:
        """Await a coroutine or future. Parks: ``await``, in code that blocks. Raises: RuntimeError elsewhere."""
        if self.is_for_caller():
            return await_(future)
        self.check_thread()
        return super().run_until_complete(future)

    def run_forever(self) -> None:
        """Wait for ``stop``. Parks: ``await``, in code that blocks. The hub runs the loop with this method."""
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
        """Refuse to run in a thread that is not the scheduler's. Raises: RuntimeError."""
        if originals.get_ident() != self.scheduler.thread_ident:
            raise RuntimeError(
                f"this loop belongs to {self.scheduler!r}, and only its thread runs it: make one for this thread with "
                "asyncio.new_event_loop()"
            )

    def stop(self) -> None:
        """Release the caller of ``run_forever`` that has added the calling callback; all callers where none has."""
        own = [stopped for stopped, caller in self.forever.items() if caller == asked_by.get(0)]
        for stopped in own or self.forever:
            if not stopped.done():
                stopped.set_result(None)
        super().stop()

    def close(self) -> None:
        """Close the loop once its scheduler has ended; do nothing before: its dhagas still need it."""
        if not self.scheduler.thread_ident:
            super().close()
