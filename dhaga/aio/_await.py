"""``await_``, which waits for awaitables of asyncio: a coroutine, or a Task or Future of any loop.

Each coroutine runs as a Task of the scheduler's loop. Its steps run on the hub (the greenlet that runs the loop), never
in the dhaga's own greenlet, because libraries such as SQLAlchemy expect every step of a Task in one greenlet. The Task
runs in the caller's Context, so the Task and the caller see each other's context variables.

An ``Awaited`` is the object that the caller's park waits for. It is *waiting* until its future is done. A timeout or
cancel makes it *cancelling*: the future is cancelled, and the caller stays parked until the future has ended. Later
cancels are passed on to the future, and remain pending. So no awaited work continues without a waiter, and no result is
lost. All methods run in the scheduler's OS thread, except ``AwaitedOnOtherLoop.on_done``, which runs in the thread of
the other loop.

``_task_session.py`` makes several awaits in one Task. ``_shared_context.py`` provides the Context of a Task.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import sys
from asyncio import CancelledError, _get_running_loop, _set_running_loop
from collections.abc import Awaitable, Coroutine
from contextvars import Context
from types import CoroutineType
from typing import Any, TypeVar

from greenlet import getcurrent

from .._kernel.api import current
from .._kernel.errors import Cancelled
from .._kernel.faces.arguments import check_seconds
from .._kernel.run.entries import HubCall
from .._kernel.run.main_code import Main
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.run.uncaught import is_outcome
from .._kernel.wait.cancellation import keep_swallowed
from .._kernel.wait.current import check_own_loop
from .._kernel.wait.deadlock import mark_own
from ._shared_context import context_to_share, copy_variables_back

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.1
"""Seconds between two checks of whether another thread's loop still runs, after a future of it was cancelled."""

OTHER_LOOP = "to a different loop", "to a different event loop"
"""The ends of asyncio's error messages about a Future, lock or queue of a loop other than the running loop."""

EAGER = sys.version_info >= (3, 12)
"""Whether a Task can run its first step at once (Python 3.12), so that most awaits need no iteration of the loop."""

STANDARD = asyncio.Future, asyncio.Task
"""Classes of futures whose callbacks are called by the loop, in the order of their registration."""


def await_(awaitable: Awaitable[T] | concurrent.futures.Future[T], timeout: float | None = None) -> T:
    """Wait for a coroutine, a Future or any other awaitable, of this or another loop, and return its result.

    A coroutine runs as a Task, in the caller's context. After a cancel or the ``timeout``, ``await_`` cancels the
    awaitable and waits for its end. If the awaitable ends with a value nevertheless, ``await_`` returns the value, and
    the next park raises the cancel. An awaited dhaga, and a running call of an executor of OS threads, are not
    cancelled. A dhaga sees no running loop. So call functions that need such a loop within the coroutine:
    ``asyncio.create_task``, before Python 3.14 also ``asyncio.gather`` and Tornado's ``IOLoop.current()``.
    Parks: ``await``. From: a dhaga, main code.
    Raises: errors of the awaitable; TimeoutError, Cancelled (also if the Task was cancelled elsewhere), TypeError,
    ParkError, RuntimeError (if the coroutine was awaited before).

    >>> import asyncio, dhaga
    >>> dhaga.await_(asyncio.sleep(0, "done"), timeout=1)
    'done'
    """
    try:
        me: Any = getcurrent()
        if not isinstance(me, Dhaga):
            me = current()
        if _get_running_loop() is not None:
            check_own_loop()
        if timeout is not None:
            check_seconds(timeout)
        if isinstance(awaitable, Dhaga):
            return awaitable.result(timeout)  # type: ignore[no-any-return]
        awaited = make_awaited(awaitable, me)
    except BaseException:
        discard(awaitable)
        raise
    try:
        awaited.wait(timeout)
        return awaited.outcome()  # type: ignore[no-any-return]
    finally:
        del awaited  # avoid a reference cycle: a Task holds its error, whose traceback holds this frame


def discard(awaitable: object) -> None:
    """Close a coroutine that will not run, so that no warning reports it as never awaited."""
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()


def make_awaited(awaitable: Any, me: Dhaga | Main) -> Awaited:
    """Return the Awaited for an awaitable. Raises: TypeError, RuntimeError."""
    if type(awaitable) is CoroutineType or isinstance(awaitable, Coroutine):
        if getattr(awaitable, "cr_suspended", False):  # a second Task would resume the coroutine within its await
            raise RuntimeError(f"{awaitable!r} is awaited already: call the function again for a second coroutine")
        return AwaitedCoroutine(me, awaitable)
    if isinstance(awaitable, concurrent.futures.Future):
        return AwaitedOfThread(me, awaitable)
    if not asyncio.isfuture(awaitable):
        return AwaitedCoroutine(me, wrap_awaitable(awaitable))
    loop = awaitable.get_loop()
    if loop is me.scheduler.loop:
        return Awaited(me, awaitable)
    if not loop.is_running():
        raise RuntimeError(f"{awaitable!r} belongs to {loop!r}, which does not run: nothing would complete it")
    return AwaitedOnOtherLoop(me, awaitable)


def wrap_awaitable(awaitable: Any) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that awaits an awaitable of another kind. Raises: TypeError that names the right call."""
    if hasattr(type(awaitable), "__await__") or inspect.isawaitable(awaitable):
        return as_coroutine(awaitable)
    if inspect.iscoroutinefunction(awaitable):
        hint = "call it: await_(fn(...))"
    elif hasattr(type(awaitable), "__aiter__"):
        hint = "iterate over it: for item in dhaga.aio.aiter_(...)"
    elif hasattr(type(awaitable), "__aenter__"):
        hint = "enter it: with dhaga.aio.enter(...)"
    else:
        hint = "await_ takes a coroutine, a Future or an object with __await__"
    raise TypeError(f"{awaitable!r} cannot be awaited: {hint}")


async def as_coroutine(awaitable: Awaitable[T]) -> T:
    """Await an object in a coroutine, because Tasks accept only coroutines."""
    return await awaitable


class Awaited:
    """The object that a parked waiter waits for: a Future of the scheduler's loop."""

    __slots__ = ("cancelling", "context_copy", "future", "me")

    def __init__(self, me: Dhaga | Main, future: Any) -> None:
        self.me: Any = me
        self.future = future
        self.cancelling = False
        self.context_copy: Context | None = None  # a copy of the caller's context, if the original cannot be shared

    @property
    def owner(self) -> object:
        """The object that a dump shows as the target of the wait."""
        return self.future

    def wait(self, timeout: float | None) -> None:
        """Park until the future is done. On a timeout or cancel, cancel the future and wait for its end.

        Parks: ``await``. Raises: the timeout or cancel, unless the future ends with a value or an error of its own.
        """
        me = self.me
        if self.future is not None and self.future.done():
            return
        started = False
        try:
            me.prepare_park("await", self)
            self.start()
            started = True
            me.park_until_woken(timeout)
        except BaseException as error:
            self.cancel_and_wait(error, started)
        finally:
            self.me = None  # avoid a reference cycle: a waiter keeps the target of its last park until its next park
            if self.context_copy is not None:
                copy_variables_back(self.context_copy)

    def start(self) -> None:
        """Register ``on_done`` as a callback. The waiter already counts as parked, so no wake is missed."""
        self.future.add_done_callback(self.on_done)

    def on_done(self, _: object) -> None:
        """Wake the waiter. From: a callback of the future's loop."""
        me = self.me
        if me is not None:
            me.scheduler.wake_in_callback(me)

    def _remove(self, waiter: object) -> bool:
        """Undo the park for a timeout or cancel. While cancelling, keep the park, and cancel the future again.

        Returns: whether the park is undone.
        """
        if self.cancelling:
            self.me.scheduler.call(self.cancel)
        return not self.cancelling

    def cancel(self) -> None:
        """Request the cancellation of the future. From: the scheduler's thread."""
        self.future.cancel()

    def cancel_and_wait(self, error: BaseException, started: bool) -> None:
        """Cancel the future, and wait for its end. Raises: ``error``, unless the future ends with a result or another
        error. A cancel then stays pending. As with ``asyncio.timeout``, no work continues without a waiter.
        """
        self.cancelling = True
        self.cancel()
        if not started and not self.future.done():
            self.start()
        me = self.me
        self.park_until_done("await, cancelled")
        try:
            if self.future.cancelled():
                raise error
            # An exit that the Task itself has raised, through the loop, is dropped.
            if not is_outcome(self.future, error):
                keep_swallowed(me, error)
        finally:
            del error  # avoid a reference cycle: its traceback holds this frame

    def finish(self) -> None:
        """Park until the future is done. Pass cancels on to the future. The next park also raises these cancels."""
        self.cancelling = True
        self.start()
        self.park_until_done("await")
        if self.context_copy is not None:
            copy_variables_back(self.context_copy)

    def park_until_done(self, reason: str) -> None:
        """Park until the future is done. Then remove the reference to the waiter, because a cancelled Future calls its
        callbacks later, when the waiter may be parked elsewhere.
        """
        me = self.me
        try:
            while not self.is_done():
                me.prepare_uncancellable(reason, self)
                self.park()
        finally:  # even after a Ctrl-C in main code, which ``_remove`` cannot refuse
            self.me = None

    def is_done(self) -> bool:
        """Return whether the future has ended."""
        return self.future.done()  # type: ignore[no-any-return]

    def park(self) -> None:
        """Park the prepared waiter."""
        self.me.park_until_woken()

    def take_future(self) -> Any:
        """Return the future, and remove this object's reference to it. This avoids a reference cycle: the traceback of
        the future's error holds frames that refer to this object.
        """
        future, self.future = self.future, None
        return future

    def outcome(self) -> Any:
        """Return the result of the future, or raise its error. A caller may call this method only once."""
        future = self.take_future()
        try:
            return future.result()
        finally:
            del future  # see await_


class AwaitedOfThread(Awaited):
    """A Future of ``concurrent.futures``, wrapped by a Future of the scheduler's loop. Both end at the same time.

    A cancel is passed to the wrapped Future at once, and ends the wait. If a dhaga runs the call, the wait lasts
    until the call has ended.
    """

    __slots__ = ("source",)

    def __init__(self, me: Dhaga | Main, source: concurrent.futures.Future[Any]) -> None:
        super().__init__(me, asyncio.wrap_future(source, loop=me.scheduler.loop))
        if hasattr(source, "ended_by_dhaga"):
            mark_own(self.future)
        self.source = source

    def cancel(self) -> None:
        self.source.cancel()
        if not hasattr(self.source, "ended_by_dhaga"):
            super().cancel()


class AwaitedOnOtherLoop(Awaited):
    """A Future of a loop in another OS thread. Callbacks and cancels run in that thread; a callback wakes the waiter.

    If the loop has stopped, a cancel would never take effect. The Future then counts as cancelled.
    """

    __slots__ = ()

    def start(self) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(self.future.add_done_callback, self.on_done)
        except RuntimeError as error:  # the loop has just been closed
            self.me.wake_parked(error=error)

    def on_done(self, future: object) -> None:
        me = self.me
        if me is not None:
            me.scheduler.call(super().on_done, future)

    def cancel(self) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(self.future.cancel)
        except RuntimeError:
            self.future = cancelled_future(self.me.scheduler)

    def is_done(self) -> bool:
        if not self.future.get_loop().is_running() and not self.future.done():
            self.future = cancelled_future(self.me.scheduler)
        return super().is_done()

    def park(self) -> None:
        """Park the prepared waiter, for at most ``LOOK_AGAIN_SECONDS`` because a stopped loop calls no callback."""
        scheduler = self.me.scheduler
        entry = scheduler.expire_after(LOOK_AGAIN_SECONDS, self)
        try:
            super().park()
        finally:
            scheduler.timers.discard(entry)

    def _expire(self) -> None:
        """End the park, so that the waiter checks the loop again."""
        self.me.wake_parked()


def cancelled_future(scheduler: Scheduler) -> asyncio.Future[Any]:
    """Return a cancelled future, which replaces a future that can no longer be cancelled."""
    future: asyncio.Future[Any] = asyncio.Future(loop=scheduler.loop)
    future.cancel()
    return future


class AwaitedCoroutine(Awaited, HubCall):
    """A coroutine that becomes a Task of the scheduler's loop."""

    __slots__ = ("context", "coroutine", "scheduler")

    def __init__(self, me: Dhaga | Main, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.me = me
        self.scheduler = me.scheduler
        self.future = None
        self.cancelling = False
        self.coroutine: Any = coroutine
        self.context, self.context_copy = context_to_share()

    @property
    def owner(self) -> object:
        return self.future or self.coroutine

    def start(self) -> None:
        loop = self.scheduler.loop
        if EAGER and loop.get_task_factory() is None:
            self.me.wake_queue.append(self)
            return
        try:
            self.future = loop.create_task(self.coroutine, context=self.context)
            self.future.add_done_callback(self.on_done)
        except BaseException as error:  # an error of the program's task factory
            self.me.wake_parked(error=error)

    def make_call(self) -> None:
        """Start the Task eagerly, on the hub, so that a coroutine that never waits needs no iteration of the loop."""
        if self.future is not None:  # the coroutine was cancelled before its start
            return
        task: Any = asyncio.Task.__new__(asyncio.Task)  # so that ``task`` is set even if its first step raises
        _set_running_loop(self.scheduler.loop)
        try:
            task.__init__(self.coroutine, loop=self.scheduler.loop, context=self.context, eager_start=True)
        except BaseException as error:
            if not task.done():  # a done Task has stored the SystemExit or KeyboardInterrupt as its outcome
                self.me.wake_parked(error=error)
                return
        finally:
            _set_running_loop(None)
        self.future = task
        if task.done():
            self.me.wake_parked()
            return
        waited = task._fut_waiter
        if type(waited) in STANDARD:
            waited.add_done_callback(self.on_step)
        else:
            task.add_done_callback(self.on_done)

    def on_step(self, _: object) -> None:
        """Wake the waiter if the second step has ended the Task. From: a callback right after that step."""
        me = self.me
        if me is None:
            return
        if self.future.done():
            me.scheduler.wake_in_callback(me)
        else:
            self.future.add_done_callback(self.on_done)

    def cancel(self) -> None:
        if self.future is None:
            self.coroutine.close()
            self.future = cancelled_future(self.me.scheduler)
        self.future.cancel()

    def outcome(self) -> Any:
        """Return the result or raise the error, once. If the Task was cancelled elsewhere, raise Cancelled."""
        future, self.future = self.future, None
        try:
            return future.result()
        except CancelledError as error:
            if future.cancelling():
                raise Cancelled(*error.args) from error
            raise
        except RuntimeError as error:
            if str(error).endswith(OTHER_LOOP):
                error.add_note(
                    "It was made in blocking code, where asyncio.get_event_loop() is not the loop on which await_ runs "
                    "coroutines. Make it in a coroutine passed to await_, or, if it has an async with, with "
                    "dhaga.aio.enter(lambda: ...)"
                )
            raise
        finally:
            del future  # see await_
