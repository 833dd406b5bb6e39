"""Waiting for asyncio's own: a coroutine, a Task, a Future, of this loop or another one.

Every coroutine runs as a Task of the scheduler's loop, on the hub and never in a dhaga's own greenlet: a library may
take the greenlet of one step for that of the next, as SQLAlchemy does. It runs in its caller's context, the very
object, so that either sees what the other sets. Not here: what takes several awaits in one Task (``aio.py``).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import sys
from asyncio import CancelledError
from collections.abc import Awaitable, Coroutine
from contextvars import Context, copy_context
from types import CoroutineType
from typing import Any, TypeVar

from greenlet import getcurrent

from .kernel.api import current
from .kernel.errors import Cancelled
from .kernel.microthread import Dhaga, Main
from .kernel.scheduler import Errand, Scheduler

T = TypeVar("T")

EAGER = sys.version_info >= (3, 12)
"""Whether a Task can make its first step at once; most hops then need no turn of the loop."""


def await_(awaitable: Awaitable[T] | concurrent.futures.Future[T], timeout: float | None = None) -> T:
    """Wait for a coroutine, a Future or anything else that ``await`` takes, of this loop or another one.

    Parks: ``await``. From: a dhaga, main code. A coroutine runs as a Task, in the caller's context. A cancel or the
    ``timeout`` cancels what is awaited, once each, and waits until it has ended; if it ends with a value all the same,
    that is returned, and the cancel is raised at the next park. Returns and raises what is awaited does. Raises:
    TimeoutError, Cancelled (also if others cancel the Task), TypeError, ParkError, RuntimeError (awaited before).
    """
    try:
        me: Any = getcurrent()
        if not isinstance(me, Dhaga):
            me = current()
        if isinstance(awaitable, Dhaga):
            return awaitable.result(timeout)  # type: ignore[no-any-return]
        awaited = prepared(awaitable, me)
    except BaseException:
        discard(awaitable)
        raise
    try:
        awaited.wait(timeout)
        return awaited.outcome()  # type: ignore[no-any-return]
    finally:
        del awaited  # an error's traceback holds this frame, and a Task its error: that would be a cycle


def discard(awaitable: object) -> None:
    """Close a coroutine that will not run: nothing is to warn that it was never awaited."""
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()


def prepared(awaitable: Any, me: Dhaga | Main) -> Awaited:
    """Find out how to await something. Raises: TypeError, RuntimeError."""
    if type(awaitable) is CoroutineType or isinstance(awaitable, Coroutine):
        if getattr(awaitable, "cr_suspended", False):  # to run it in a second Task would be chaos
            raise RuntimeError(f"{awaitable!r} is awaited already: call the function again for a second coroutine")
        return AwaitedCoroutine(me, awaitable)
    if isinstance(awaitable, concurrent.futures.Future):
        return Awaited(me, asyncio.wrap_future(awaitable, loop=me.scheduler.loop))
    if not asyncio.isfuture(awaitable):
        return AwaitedCoroutine(me, complete(awaitable))
    loop = awaitable.get_loop()
    if loop is me.scheduler.loop:
        return Awaited(me, awaitable)
    if not loop.is_running():
        raise RuntimeError(f"{awaitable!r} belongs to {loop!r}, which does not run: nobody would complete it")
    return AwaitedElsewhere(me, awaitable)


def complete(awaitable: Any) -> Coroutine[Any, Any, Any]:
    """Make a coroutine of another kind of awaitable. Raises: TypeError, with what to do, for anything else."""
    if hasattr(type(awaitable), "__await__") or inspect.isawaitable(awaitable):
        return awaiting(awaitable)
    if inspect.iscoroutinefunction(awaitable):
        hint = "call it: await_(fn(...))"
    elif hasattr(type(awaitable), "__aiter__"):
        hint = "iterate over it: for item in dhaga.aio.aiter_(...)"
    elif hasattr(type(awaitable), "__aenter__"):
        hint = "enter it: with dhaga.aio.enter(...)"
    else:
        hint = "await_ takes a coroutine, a Future or an object with __await__"
    raise TypeError(f"{awaitable!r} cannot be awaited: {hint}")


async def awaiting(awaitable: Awaitable[T]) -> T:
    return await awaitable


class Awaited:
    """A Future that a waiter is parked on; the place of that park."""

    __slots__ = ("copy", "ending", "future", "me")

    def __init__(self, me: Dhaga | Main, future: Any) -> None:
        self.me: Any = me
        self.future = future
        self.ending = False
        self.copy: Context | None = None  # of the caller's context, if that itself cannot be shared

    @property
    def owner(self) -> object:
        """What a dump is to show."""
        return self.future

    def wait(self, timeout: float | None) -> None:
        """Park until the future is done; if that is cut short, cancel it and wait for its end.

        Parks: ``await``. Raises: what cut it short, unless the future then has a value or an error of its own.
        """
        me = self.me
        if self.future is not None and self.future.done():
            return
        begun = False
        try:
            me.prepare("await", self)
            self.start()
            begun = True
            me.park(timeout)
        except BaseException as error:
            self.cut_short(error, begun)
        finally:
            if self.copy is not None:
                bring_back(self.copy)

    def start(self) -> None:
        """Have ``arrive`` called at the end; from the waiter, once it counts as parked."""
        self.future.add_done_callback(self.arrive)

    def arrive(self, _: object) -> None:
        """Wake the waiter; a callback of its loop."""
        me = self.me
        if me is not None:
            me.scheduler.wake_in_callback(me)

    def remove(self, waiter: object) -> bool:
        """Let the waiter go, to see to the end; after that pass each cancel on, and have it wait."""
        if self.ending:
            self.me.scheduler.call(self.cancel)
        return not self.ending

    def cancel(self) -> None:
        self.future.cancel()

    def cut_short(self, error: BaseException, begun: bool) -> None:
        """Cancel what is awaited and wait for its end, then raise ``error``; at the next park if that has ended well.

        So what has begun does not go on unseen, and what it has brought is not lost; ``asyncio.timeout`` does the same.
        """
        self.ending = True
        self.cancel()
        if not begun and not self.future.done():
            self.start()
        self.see_off("await, cancelled")
        me, self.me = self.me, None  # a Future that is cancelled has its callbacks called later
        if self.future.cancelled():
            raise error
        if not isinstance(error, TimeoutError) and getattr(error, "scope", None) is None:  # which stands anyway
            me.interrupt(error)

    def finish(self) -> None:
        """Park until the future is done, whatever cancels say: they are passed on, and raised at the next park."""
        self.ending = True
        self.start()
        self.see_off("await")
        if self.copy is not None:
            bring_back(self.copy)

    def see_off(self, reason: str) -> None:
        me = self.me
        try:
            while not self.future.done():
                me.place = self
                me.parked.append(reason)
                me.park()
        except BaseException:  # main code, interrupted by force
            self.me = None
            raise

    def outcome(self) -> Any:
        """Return or raise what has come of it."""
        try:
            return self.future.result()
        finally:
            del self  # see await_


class AwaitedElsewhere(Awaited):
    """A Future of a loop that runs in another OS thread."""

    __slots__ = ()

    def start(self) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(self.future.add_done_callback, self.arrive)
        except RuntimeError as error:  # closed just now
            self.me.unpark(error=error)

    def arrive(self, future: object) -> None:
        me = self.me
        if me is not None:
            me.scheduler.call(super().arrive, future)

    def cancel(self) -> None:
        try:
            self.future.get_loop().call_soon_threadsafe(self.future.cancel)
        except RuntimeError:
            self.future = cancelled_future(self.me.scheduler)


def cancelled_future(scheduler: Scheduler) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.Future(loop=scheduler.loop)
    future.cancel()
    return future


class AwaitedCoroutine(Awaited, Errand):
    """A coroutine, which becomes a Task."""

    __slots__ = ("context", "coroutine", "scheduler")

    def __init__(self, me: Dhaga | Main, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.me = me
        self.scheduler = me.scheduler
        self.future = None
        self.ending = False
        self.coroutine: Any = coroutine
        self.context, self.copy = context_to_share()

    @property
    def owner(self) -> object:
        return self.future or self.coroutine

    def start(self) -> None:
        loop = self.scheduler.loop
        if EAGER and loop.get_task_factory() is None:
            self.me.queue.append(self)
            return
        try:
            self.future = loop.create_task(self.coroutine, context=self.context)
            self.future.add_done_callback(self.arrive)
        except BaseException as error:  # a factory of the program's
            self.me.unpark(error=error)

    def make_call(self) -> None:
        """Become a Task, on the hub: a coroutine that does not wait is done without a turn of the loop."""
        if self.future is not None:  # cancelled before
            return
        task: Any = asyncio.Task.__new__(asyncio.Task)  # apart from its first step, which may raise
        try:
            task.__init__(self.coroutine, loop=self.scheduler.loop, context=self.context, eager_start=True)
        except BaseException as error:
            if not task.done():  # if it is, this is its SystemExit or KeyboardInterrupt, an outcome like others
                self.me.unpark(error=error)
                return
        self.future = task
        if task.done():
            self.me.unpark()
        else:
            task.add_done_callback(self.arrive)

    def cancel(self) -> None:
        if self.future is None:
            self.coroutine.close()
            self.future = cancelled_future(self.me.scheduler)
        self.future.cancel()

    def outcome(self) -> Any:
        """Return or raise what has come of it; a Task that others have cancelled cancels its dhaga."""
        try:
            return self.future.result()
        except CancelledError as error:
            if self.future.cancelling():
                raise Cancelled(*error.args) from error
            raise
        finally:
            del self  # see await_


def context_to_share() -> tuple[Context, Context | None]:
    """Return the caller's context, for a Task to run in. One that is in a ``Context.run`` cannot be entered twice; then
    it is a copy, and returned twice.
    """
    me = getcurrent()
    context = me.gr_context
    if context is None:  # main code in which nobody has asked for a variable yet
        copy_context()
        context = me.gr_context
    assert context is not None
    try:
        context.run(int)
    except RuntimeError:
        copy = context.copy()
        return copy, copy
    return context, None


def bring_back(copy: Context) -> None:
    """Set in the caller's context what was set in its copy."""
    for variable, value in copy.items():
        if variable.get(copy) is not value:  # the copy stands for: no value
            variable.set(value)
