"""Several awaits in one Task, for ``enter`` (``_async_with.py``) and ``aiter_`` (``_async_for.py``).

``asyncio.timeout``, anyio and aiohttp expect that every step of a block runs in the Task that began the block. So each
block or iteration has a ``TaskSession``: a Task that makes calls for the dhaga, one after the other, in the dhaga's
context.

The session is *serving* (``calls[0]`` runs), *idle* (its Task awaits ``idle``), or *stopping* (it ends after the last
call). A cancel of the serving Task is passed on to the call. A cancel of the idle Task cannot reach the dhaga as an
exception of asyncio. So the cancel becomes ``interruption``, a pending cancel of the dhaga. The end of the block
converts the interruption back to asyncio's exception. ``submit`` and ``stop`` must be called in the scheduler's OS
thread; ``finish_unattended`` may be called anywhere, even by a finalizer. Only dhagas and main code of the session's
scheduler may wait for a call.

``_await.py`` waits for a single awaitable.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

from .._kernel.api import current
from .._kernel.errors import Cancelled, Expired, ParkError
from .._kernel.run.scheduler import Scheduler
from .._kernel.wait.cancellation import PendingErrors
from .._kernel.wait.deadlock import mark_own
from ._await import Awaited
from ._shared_context import context_to_share


class SessionCall(asyncio.Future[Any]):
    """The future of one call that a session makes and awaits. A cancel of the future cancels the call.

    The future is done when the call has ended.
    """

    def __init__(self, session: TaskSession, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        super().__init__(loop=session.scheduler.loop)
        mark_own(self)
        self.session = session
        self.fn = fn
        self.args = args
        self.cancels: int = 0
        self.started: bool = False
        self.task_was_cancelled: bool = False

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self.cancels += 1
        if self.started:
            self.session.task.cancel(msg)
        return True

    async def serve(self) -> None:
        """Make the call in the session's Task, and store its outcome."""
        task = self.session.task
        self.started = True
        for _ in range(self.cancels):
            task.cancel()
        try:
            value = await self.fn(*self.args)
        except CancelledError:
            self.task_was_cancelled = task.cancelling() > self.cancels
            super().cancel()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)
        for _ in range(self.cancels):
            task.uncancel()
        del self  # avoid a reference cycle: self holds the error, whose traceback holds this frame

    def abandon(self) -> None:
        """Cancel a call that will not be made, because other code has cancelled the Task before its first step."""
        self.task_was_cancelled = True
        super().cancel()


class TaskSession:
    """A Task that awaits calls for a dhaga, one after the other, as if the dhaga were that Task.

    A cancel of the Task between two calls interrupts the dhaga. For example, an ``asyncio.timeout`` that a call has
    entered may cancel the Task.
    """

    def __init__(self, for_block: bool) -> None:
        me = current()
        self.me = me
        self.scheduler: Scheduler = me.scheduler
        self.context_copy: Context | None
        context, self.context_copy = context_to_share()
        self.for_block = for_block
        # Shields compare this number to find out whether they are inside this block.
        self.number: int = self.scheduler.timers.sequence()
        self.interruption: BaseException | None = None
        self.cancelled: CancelledError | None = None
        self.calls: deque[SessionCall] = deque()
        self.stopping: bool = False
        self.idle: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] = self.scheduler.loop.create_task(self.run(), context=context)
        self.task.add_done_callback(self.abandon_calls)

    def __repr__(self) -> str:
        return f"<TaskSession of {self.me.name}, {len(self.calls)} calls>"

    async def run(self) -> None:
        """Make the submitted calls until ``stop``."""
        while self.calls or not self.stopping:
            if self.calls:
                await self.calls[0].serve()
                self.calls.popleft()
            else:
                await self.wait_for_call()

    async def wait_for_call(self) -> None:
        """Await the next ``submit`` or ``stop``."""
        self.idle = self.scheduler.loop.create_future()
        mark_own(self.idle)
        try:
            await self.idle
        except CancelledError as error:
            self.on_idle_cancel(error)

    def on_idle_cancel(self, error: CancelledError) -> None:
        """Pass on a cancel of the Task that arrived between two calls."""
        if self.calls:  # a call has just been submitted, and gets the cancel
            self.task.uncancel()
            self.task.cancel()
        elif self.cancelled is None and not self.stopping:
            self.cancelled = error
            self.interruption = Expired(self, self.number) if self.for_block else Cancelled(*error.args)
            self.me.cancel_with(self.interruption)

    def withdraw_interruption(self) -> None:
        """Remove the interruption from the dhaga's pending errors, unless it was already raised."""
        pending = self.me.pending_errors
        if self.interruption is not None and isinstance(pending, PendingErrors):
            pending.drop(self.interruption)

    def abandon_calls(self, _: object) -> None:
        """Cancel all calls that the Task can no longer make. From: a callback, when the Task is done."""
        for call in self.calls:
            call.abandon()

    def submit(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> SessionCall:
        """Queue ``fn(*args)`` to be called and awaited. From: the scheduler's thread."""
        call = SessionCall(self, fn, args)
        self.calls.append(call)
        self.wake_task()
        return call

    def wake_task(self) -> None:
        """End the Task's wait for a call."""
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    def stop(self) -> None:
        """End the Task after its last call. From: the scheduler's thread."""
        self.stopping = True
        self.wake_task()

    def finish_unattended(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Submit the last call and stop, without waiting. From: any thread, even a finalizer."""
        self.scheduler.call(self.submit, fn, *args)
        self.scheduler.call(self.stop)

    def stop_and_wait(self) -> None:
        """End the Task and wait for it. Parks: ``await``."""
        self.stop()
        Awaited(self.me, self.task).finish()

    def await_(self, timeout: float | None, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Submit a call and wait for its result. Parks: ``await``. From: a dhaga or main code of the same scheduler."""
        self.me = me = current()
        if me.scheduler is not self.scheduler:
            raise RuntimeError(f"this was entered in {self.scheduler!r}: {me!r} cannot continue it in {me.scheduler!r}")
        awaited = Awaited(me, self.submit(fn, *args))
        awaited.context_copy = self.context_copy
        try:
            awaited.wait(timeout)
            return outcome(awaited.take_future())
        finally:
            del awaited  # see await_

    def finish(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Submit the last call and wait for its end. As in asyncio, the call starts even if a cancel is pending.

        Returns: the call's result, or ``WAS_CANCELLED`` if a cancel has ended the call. The cancel then stays pending.
        """
        self.me = me = current()
        self.stopping = True
        awaited = Awaited(me, self.submit(fn, *args))
        awaited.context_copy = self.context_copy
        try:
            awaited.finish()
            if awaited.future.cancelled() and awaited.future.cancels and me.pending_errors:
                return WAS_CANCELLED
            return outcome(awaited.take_future())
        finally:
            del awaited  # see await_


WAS_CANCELLED = object()
"""The value that ``TaskSession.finish`` returns if the call was cancelled."""


def outcome(call: Any) -> Any:
    """Return the result of a call or raise its error. If other code has cancelled the Task, raise Cancelled."""
    try:
        return call.result()
    except CancelledError as error:
        if call.task_was_cancelled:
            raise Cancelled(*error.args) from error
        raise
    finally:
        del call


def can_wait(scheduler: Scheduler) -> bool:
    """Return whether the caller may park in this scheduler. The hub and finalizers in other threads may not."""
    try:
        me = current()
    except ParkError:
        return False
    return me.scheduler is scheduler and not getattr(me, "has_ended", False)
