"""Waiting for awaitables of asyncio: a coroutine, a Task or a Future, of the scheduler's loop or another one.

Each coroutine runs as a Task of the scheduler's loop, stepped on the hub, never in the dhaga's own greenlet: libraries
such as SQLAlchemy expect every step of a Task in one greenlet. The Task runs in the caller's Context, so that each sees
the variables that the other sets.

An ``Awaited`` is the wait target of the park. It is *waiting* until its future is done. A timeout or cancel makes it
*cancelling*: the future is cancelled, and the caller stays parked until it has ended; later cancels are passed on and
remain pending. So no awaited work continues without a waiter, and no result is lost. All methods run in the scheduler's
OS thread, except for those that ``AwaitedOnOtherLoop`` calls in the thread of its loop.

Several awaits in one Task: ``_task_session.py``. The caller's Context: ``_shared_context.py``.
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
from .._kernel.wait.current import check_own_loop
from .._kernel.wait.deadlock import mark_own
from ._shared_context import context_to_share, copy_variables_back

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.1
"""Seconds between checks of a cancelled await whether the loop that must cancel, in another thread, still runs."""

OTHER_LOOP = "to a different loop", "to a different event loop"
"""The ends of asyncio's messages about a Future, or a lock or queue, of another loop than the running one."""

EAGER = sys.version_info >= (3, 12)
"""Whether a Task can take its first step at once (3.12): then most awaits need no iteration of the loop."""

STANDARD = asyncio.Future, asyncio.Task
"""Their callbacks are called in the order of their registration, each by the loop."""


def await_(awaitable: Awaitable[T] | concurrent.futures.Future[T], timeout: float | None = None) -> T:
    """Wait for a coroutine, a Future or any other awaitable, of this loop or another one, and return its result.

    Parks: ``await``. From: a dhaga, main code. A coroutine runs as a Task, in the caller's context. A cancel or the
    ``timeout`` cancels the awaitable and waits for its end; if it ends with a value nevertheless, the value is
    returned, and the cancel is raised at the next park. A dhaga sees no running loop. Functions that need one must be
    called within the coroutine: ``asyncio.create_task``, and before Python 3.14 also ``asyncio.gather`` and Tornado's
    ``IOLoop.current()``. Raises: what the awaitable raises; TimeoutError, Cancelled (also if its Task was cancelled
    elsewhere), TypeError, ParkError, RuntimeError (awaited before).

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
        del awaited  # a Task holds its error, whose traceback holds this frame: a cycle


def discard(awaitable: object) -> None:
    """Close a coroutine that will not run, so that no warning reports it as never awaited."""
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()


def make_awaited(awaitable: Any, me: Dhaga | Main) -> Awaited:
    """Return the wait target for an awaitable. Raises: TypeError, RuntimeError."""
    if type(awaitable) is CoroutineType or isinstance(awaitable, Coroutine):
        if getattr(awaitable, "cr_suspended", False):  # a second Task would resume it in the middle of another's await
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
    """Return a coroutine for an awaitable of another kind. Raises: TypeError, naming the right call."""
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
    """Await an object in a coroutine, as Tasks accept only coroutines."""
    return await awaitable


class Awaited:
    """A Future of the scheduler's loop on which a waiter is parked: the wait target of that park."""

    __slots__ = ("cancelling", "context_copy", "future", "me")

    def __init__(self, me: Dhaga | Main, future: Any) -> None:
        self.me: Any = me
        self.future = future
        self.cancelling = False
        self.context_copy: Context | None = None  # a copy of the caller's context, if that cannot be shared

    @property
    def owner(self) -> object:
        """The object that a dump names as waited for."""
        return self.future

    def wait(self, timeout: float | None) -> None:
        """Park until the future is done; on a timeout or cancel, cancel it and wait for its end.

        Parks: ``await``. Raises: the timeout or cancel, unless the future then has a value or an error of its own.
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
            self.me = None  # who keeps its last wait target: a cycle until its next park
            if self.context_copy is not None:
                copy_variables_back(self.context_copy)

    def start(self) -> None:
        """Register ``on_done`` as a callback. The waiter counts as parked already, so that a wake is never missed."""
        self.future.add_done_callback(self.on_done)

    def on_done(self, _: object) -> None:
        """Wake the waiter. From: a callback of its loop."""
        me = self.me
        if me is not None:
            me.scheduler.wake_in_callback(me)

    def _remove(self, waiter: object) -> bool:
        """Undo the park for a timeout or cancel. While cancelling, refuse, and pass the cancel on to the future."""
        if self.cancelling:
            self.me.scheduler.call(self.cancel)
        return not self.cancelling

    def cancel(self) -> None:
        """Request the cancellation of the future. From: the scheduler's thread."""
        self.future.cancel()

    def cancel_and_wait(self, error: BaseException, started: bool) -> None:
        """Cancel the future, wait for its end, and raise ``error``; if the future has a value, ``error`` stays pending
        instead.

        So no work continues without a waiter, and no result is lost; ``asyncio.timeout`` does the same.
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
            # A timeout that came too late is dropped. A scope's cancel stays pending in any case, until the scope ends.
            if not isinstance(error, TimeoutError) and getattr(error, "scope", None) is None:
                me.cancel_with(error)
        finally:
            del error  # its traceback holds this frame: a cycle

    def finish(self) -> None:
        """Park until the future is done. Cancels are passed on to the future, and raised at the next park."""
        self.cancelling = True
        self.start()
        self.park_until_done("await")
        if self.context_copy is not None:
            copy_variables_back(self.context_copy)

    def park_until_done(self, reason: str) -> None:
        """Park until the future is done, however often the waiter is woken before. Then let go of the waiter: a
        cancelled Future calls its callbacks later, when the waiter may be parked elsewhere.
        """
        me = self.me
        try:
            while not self.is_done():
                me.prepare_uncancellable(reason, self)
                self.park()
        finally:  # also after a Ctrl-C in main code, which ``_remove`` cannot refuse
            self.me = None

    def is_done(self) -> bool:
        """Return whether the future has ended."""
        return self.future.done()  # type: ignore[no-any-return]

    def park(self) -> None:
        """Park the prepared waiter."""
        self.me.park_until_woken()

    def take_future(self) -> Any:
        """Return the future and let go of it: its error may hold the caller, who keeps its last wait target."""
        future, self.future = self.future, None
        return future

    def outcome(self) -> Any:
        """Return or raise the result of the future, once."""
        future = self.take_future()
        try:
            return future.result()
        finally:
            del future  # see await_


class AwaitedOfThread(Awaited):
    """A Future of ``concurrent.futures``, by a Future of the scheduler's loop that ends with it.

    A cancel reaches the first at once: by itself asyncio passes it on in the next iteration, when the wait is over.
    """

    __slots__ = ("source",)

    def __init__(self, me: Dhaga | Main, source: concurrent.futures.Future[Any]) -> None:
        super().__init__(me, asyncio.wrap_future(source, loop=me.scheduler.loop))
        if hasattr(source, "ended_by_dhaga"):
            mark_own(self.future)
        self.source = source

    def cancel(self) -> None:
        self.source.cancel()
        super().cancel()


class AwaitedOnOtherLoop(Awaited):
    """A Future of a loop in another OS thread: callbacks and cancels run there, and report its end here.

    Once that loop has stopped, a cancel would never take effect: the Future then counts as cancelled.
    """

    __slots__ = ()

    def start(self) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(self.future.add_done_callback, self.on_done)
        except RuntimeError as error:  # the loop was closed just now
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
        """Park the prepared waiter for a while: a stopped loop makes no callback."""
        scheduler = self.me.scheduler
        entry = scheduler.expire_after(LOOK_AGAIN_SECONDS, self)
        try:
            super().park()
        finally:
            scheduler.timers.discard(entry)

    def _expire(self) -> None:
        """End the park, to check the loop again."""
        self.me.wake_parked()


def cancelled_future(scheduler: Scheduler) -> asyncio.Future[Any]:
    """Return a cancelled future, in place of one that can no longer be reached."""
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
        except BaseException as error:  # a task factory of the program may raise
            self.me.wake_parked(error=error)

    def make_call(self) -> None:
        """Start the Task eagerly, on the hub: a coroutine that never waits is done without an iteration of the loop."""
        if self.future is not None:  # cancelled before its start
            return
        task: Any = asyncio.Task.__new__(asyncio.Task)  # created separately from its first step, which may raise
        _set_running_loop(self.scheduler.loop)
        try:
            task.__init__(self.coroutine, loop=self.scheduler.loop, context=self.context, eager_start=True)
        except BaseException as error:
            if not task.done():  # a done Task has this SystemExit or KeyboardInterrupt as its outcome
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
        """Wake the waiter if the Task has ended with its second step. From: a callback right behind that step."""
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
        """Return or raise the result, once; a Task that was cancelled elsewhere cancels its dhaga."""
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
