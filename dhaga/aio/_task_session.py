"""Several awaits in one Task: ``enter`` for asynchronous context managers, ``aiter_`` for asynchronous iterables.

``asyncio.timeout``, anyio and aiohttp expect every step of a block in the Task that began it. So each block or
iteration has a ``TaskSession``: a Task that serves calls of the dhaga, one after the other, in the dhaga's context.

The session is *serving* (``calls[0]`` runs), *idle* (its Task awaits ``idle``), or *stopping* (it ends after the last
call). A cancel of the serving Task is passed on to the call. A cancel of the idle Task cannot reach the dhaga as an
exception of asyncio: it becomes ``interruption``, a pending cancel of the dhaga, which the end of the block translates
back. ``submit`` and ``stop`` belong to the scheduler's OS thread; ``finish_unattended`` may be called anywhere, also by
a finalizer. Only dhagas and main code of that scheduler may wait for a call.

The wait for one awaitable: ``_await.py``.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import TracebackType
from typing import Any, Generic, TypeVar

from .._kernel.api import current
from .._kernel.errors import Cancelled, Expired, ParkError
from .._kernel.faces.arguments import check_seconds
from .._kernel.run.scheduler import Scheduler
from .._kernel.wait.cancellation import PendingErrors
from .._kernel.wait.deadlock import mark_own
from ._await import Awaited, discard
from ._shared_context import context_to_share

T = TypeVar("T")


class SessionCall(asyncio.Future[Any]):
    """One call for a session to make and await. Cancelling it cancels the call; it is done when the call has ended."""

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
        del self  # which holds the error, whose traceback holds this frame: a cycle

    def abandon(self) -> None:
        """End without being served: the Task was cancelled elsewhere before its first step."""
        self.task_was_cancelled = True
        super().cancel()


class TaskSession:
    """A Task that awaits calls for a dhaga, one after the other, as if the dhaga were that Task.

    A cancel between two calls, for example by an ``asyncio.timeout`` entered in it, interrupts the dhaga.
    """

    def __init__(self, for_block: bool) -> None:
        me = current()
        self.me = me
        self.scheduler: Scheduler = me.scheduler
        self.context_copy: Context | None
        context, self.context_copy = context_to_share()
        self.for_block = for_block
        # Shields compare it to find out whether they are inside this block.
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
        """Serve calls until stopped."""
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
        if self.calls:  # the next call was submitted just now, and gets the cancel
            self.task.uncancel()
            self.task.cancel()
        elif self.cancelled is None and not self.stopping:
            self.cancelled = error
            self.interruption = Expired(self, self.number) if self.for_block else Cancelled(*error.args)
            self.me.cancel_with(self.interruption)

    def withdraw_interruption(self) -> None:
        """Remove the interruption from the dhaga's pending errors if it was not raised yet."""
        pending = self.me.pending_errors
        if self.interruption is not None and isinstance(pending, PendingErrors):
            pending.drop(self.interruption)

    def abandon_calls(self, _: object) -> None:
        """End all calls that the Task can no longer serve. From: a callback, when the Task is done."""
        for call in self.calls:
            call.abandon()

    def submit(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> SessionCall:
        """Queue ``fn(*args)`` to be called and awaited. From: the scheduler's thread."""
        call = SessionCall(self, fn, args)
        self.calls.append(call)
        self.wake_task()
        return call

    def wake_task(self) -> None:
        """End the idle state."""
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    def stop(self) -> None:
        """End the Task after its last call. From: the scheduler's thread."""
        self.stopping = True
        self.wake_task()

    def finish_unattended(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Submit the last call and stop, without waiting. From: any thread, also a finalizer."""
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
            raise RuntimeError(
                f"this was started in {self.scheduler!r}: {me!r} cannot go on with it in {me.scheduler!r}"
            )
        awaited = Awaited(me, self.submit(fn, *args))
        awaited.context_copy = self.context_copy
        try:
            awaited.wait(timeout)
            return outcome(awaited.take_future())
        finally:
            del awaited  # see await_

    def finish(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Submit the last call and wait for it. As in asyncio, the call starts even if a cancel is pending.

        Returns: ``WAS_CANCELLED`` if a cancel has ended it; that cancel is still pending.
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
"""Returned by ``TaskSession.finish`` in place of a result."""


def outcome(call: Any) -> Any:
    """Return or raise the result of a call; a Task that was cancelled elsewhere cancels its dhaga."""
    try:
        return call.result()
    except CancelledError as error:
        if call.task_was_cancelled:
            raise Cancelled(*error.args) from error
        raise
    finally:
        del call


def enter(
    manager: AbstractAsyncContextManager[T, Any] | Callable[[], AbstractAsyncContextManager[T, Any]],
    timeout: float | None = None,
) -> Block[T]:
    """Enter an asynchronous context manager: ``with enter(pool.acquire()) as connection: ...``.

    One Task enters and leaves it. An object that needs the running loop, which a dhaga does not see, is made by that
    Task: ``enter(aiohttp.ClientSession)``. A cancel of that Task interrupts the block, so that ``with enter(lambda:
    asyncio.timeout(1)):`` bounds it; a cancel of the dhaga reaches the manager as CancelledError. Parks: ``await``, on
    entry, for at most ``timeout`` seconds, and at the end. From: a dhaga, main code. Raises: TypeError,
    TimeoutError, ParkError.
    """
    if is_manager(manager) or not callable(manager):
        check_manager(manager)
    check_seconds(timeout)
    return Block(manager, timeout)


def is_manager(thing: object) -> bool:
    """Return whether it is an asynchronous context manager."""
    return hasattr(type(thing), "__aenter__") and hasattr(type(thing), "__aexit__")


def check_manager(thing: object) -> None:
    """Raise TypeError unless it is an asynchronous context manager."""
    if not is_manager(thing):
        discard(thing)
        plain = hasattr(type(thing), "__enter__")
        hint = "enter it with a plain with" if plain else "it has no __aenter__ and __aexit__"
        raise TypeError(f"{thing!r} is not an asynchronous context manager: {hint}")


class Block(Generic[T]):
    """A ``with`` block around an asynchronous context manager; see ``enter``."""

    def __init__(self, manager: object, timeout: float | None) -> None:
        self.manager: Any = manager
        self.timeout = timeout
        self.session: TaskSession | None = None

    def __repr__(self) -> str:
        return f"<Block of {self.manager!r}{', entered' if self.session else ''}>"

    def __enter__(self) -> T:
        if self.session is not None:
            raise RuntimeError(f"{self!r} is already entered: call enter() for each block")
        session = TaskSession(for_block=True)
        try:
            value: T = session.await_(self.timeout, self.begin)
        except BaseException:
            session.stop_and_wait()
            raise
        self.session = session
        return value

    async def begin(self) -> T:
        """Make the manager, if a function was given, and enter it, in the session's Task."""
        if not is_manager(self.manager):
            manager = self.manager()
            check_manager(manager)
            self.manager = manager
        return await type(self.manager).__aenter__(self.manager)  # type: ignore[no-any-return]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        session, self.session = self.session, None
        assert session is not None
        # A generator dropped elsewhere, or closed by the collector, runs this on a stack that cannot park.
        if not can_wait(session.scheduler):
            session.finish_unattended(self.leave, session, error)
            return False
        # The block is over: an interruption that was not raised has nothing left to interrupt.
        session.withdraw_interruption()
        pending = None
        if error is None and session.me.pending_errors:
            pending = error = session.me.pending_errors.pop(
                0
            )  # a cancel that arrived within the block is raised at its end
        try:
            handled = session.finish(self.leave, session, error)
            if handled is WAS_CANCELLED and not isinstance(error, Cancelled | Expired):
                raise session.me.pending_errors.pop(0)
        except CancelledError:
            if not isinstance(error, Cancelled | Expired):
                raise
            handled = False  # the form in which the manager got the dhaga's cancel
        if error is None or (handled and handled is not WAS_CANCELLED):
            return bool(handled)
        if error is session.interruption:
            raise Cancelled("its Task was cancelled") from session.cancelled
        if error is pending:
            raise pending
        return False

    async def leave(self, session: TaskSession, error: BaseException | None) -> Any:
        """Leave the manager, in the session's Task. Cancels of the dhaga reach it as CancelledError."""
        if error is not None and error is session.interruption:
            error = session.cancelled
        elif isinstance(error, Cancelled | Expired):
            try:
                session.calls[0].cancel()
                await asyncio.sleep(0)
            except CancelledError as cancelled:
                error = cancelled
        trace = None if error is None else error.__traceback__
        return await type(self.manager).__aexit__(self.manager, error and type(error), error, trace)


def aiter_(iterable: AsyncIterable[T], timeout: float | None = None) -> Iterator[T]:
    """Iterate over an asynchronous iterable: ``for row in aiter_(cursor): ...``. One Task makes all the steps.

    Parks: ``await``, for at most ``timeout`` seconds an item. From: a dhaga, main code. Closing or dropping the
    iterator, as ``break`` does, runs ``aclose()`` of an asynchronous generator and waits for it; a finalizer on the hub
    starts it without waiting. Raises: what the iterable raises; TypeError, TimeoutError, ParkError.
    """
    if not hasattr(type(iterable), "__aiter__"):
        discard(iterable)
        hint = "iterate over it with a plain for" if hasattr(type(iterable), "__iter__") else "it has no __aiter__"
        raise TypeError(f"{iterable!r} is not an asynchronous iterable: {hint}")
    check_seconds(timeout)
    return steps(iterable.__aiter__(), timeout)


def steps(iterator: AsyncIterator[T], timeout: float | None) -> Iterator[T]:
    """Yield the items; at the end, close the iterator in the same Task."""
    session = TaskSession(for_block=False)
    try:
        while True:
            try:
                item = session.await_(timeout, type(iterator).__anext__, iterator)
            except StopAsyncIteration:
                return
            yield item
    finally:
        close(session, iterator)


def close(session: TaskSession, iterator: Any) -> None:
    """Close the iterator in its session and stop the session; wait for the end if the caller can park."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        session.scheduler.call(session.stop)
    elif can_wait(session.scheduler):
        session.finish(aclose)
    else:
        session.finish_unattended(aclose)


def can_wait(scheduler: Scheduler) -> bool:
    """Return whether the caller may park in this scheduler: the hub and finalizers in other threads may not."""
    try:
        me = current()
    except ParkError:
        return False
    return me.scheduler is scheduler and not getattr(me, "has_ended", False)
