"""The door to asyncio: what dhagas need to use coroutines as if they were functions, and coroutines to call dhagas.

``asyncio.timeout``, anyio and aiohttp take the Task of one step for that of the next: what begins and ends, a ``with
enter(...)`` block or an iteration, has one Task from end to end. Not here: how a dhaga waits for it (``tasks.py``).
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

from .kernel.api import current, spawn
from .kernel.cancels import Cancels
from .kernel.errors import Cancelled, Expired, ParkError
from .kernel.microthread import Dhaga
from .kernel.scheduler import Scheduler
from .tasks import Awaited, await_, context_to_share, discard

T = TypeVar("T")


class Request(asyncio.Future[Any]):
    """A call for a companion to make and await. To cancel it is to cancel that; it is done when that has ended."""

    def __init__(self, companion: Companion, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        super().__init__(loop=companion.scheduler.loop)
        self.companion = companion
        self.fn = fn
        self.args = args
        self.cancels = 0
        self.begun = False
        self.cancelled_by_others = False

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        self.cancels += 1
        if self.begun:
            self.companion.task.cancel(msg)
        return True

    async def serve(self) -> None:
        """Make the call, and keep what comes of it."""
        task = self.companion.task
        self.begun = True
        for _ in range(self.cancels):
            task.cancel()
        try:
            value = await self.fn(*self.args)
        except CancelledError:
            self.cancelled_by_others = task.cancelling() > self.cancels
            super().cancel()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)
        for _ in range(self.cancels):
            task.uncancel()

    def give_up(self) -> None:
        """Be done although nobody serves: others have cancelled the Task before it has begun."""
        self.cancelled_by_others = True
        super().cancel()


class Companion:
    """A Task that awaits one thing after another for a dhaga, as if that were itself a Task.

    Cancelled between two of them, by an ``asyncio.timeout`` that it has entered, say, it interrupts the dhaga.
    """

    def __init__(self, of_a_block: bool) -> None:
        me = current()
        self.me = me
        self.scheduler = me.scheduler
        context, self.copy = context_to_share()
        self.of_a_block = of_a_block
        self.number = self.scheduler.timers.sequence()  # tells a shield whether it is outside of this block
        self.interruption: BaseException | None = None
        self.cancelled: CancelledError | None = None
        self.requests: deque[Request] = deque()
        self.leaving = False
        self.idle: asyncio.Future[None] | None = None
        self.task = self.scheduler.loop.create_task(self.run(), context=context)
        self.task.add_done_callback(self.give_up)

    def __repr__(self) -> str:
        return f"<Companion of {self.me.name}, {len(self.requests)} requests>"

    async def run(self) -> None:
        """Serve until told to leave."""
        while self.requests or not self.leaving:
            if self.requests:
                await self.requests[0].serve()
                self.requests.popleft()
            else:
                await self.rest()

    async def rest(self) -> None:
        self.idle = self.scheduler.loop.create_future()
        try:
            await self.idle
        except CancelledError as error:
            self.take_cancel(error)

    def take_cancel(self, error: CancelledError) -> None:
        """Pass on a cancel that has come between two requests."""
        if self.requests:  # it strikes the one that is to be served now
            self.task.uncancel()
            self.task.cancel()
        elif self.cancelled is None and not self.leaving:
            self.cancelled = error
            self.interruption = Expired(self, self.number) if self.of_a_block else Cancelled(*error.args)
            self.me.interrupt(self.interruption)

    def take_back(self) -> None:
        """See that the interruption is not raised any more, if it has not been."""
        pending = self.me.pending
        if self.interruption is None:
            return
        if isinstance(pending, Cancels):
            pending.drop(self.interruption)
        elif self.interruption in pending:
            pending.remove(self.interruption)

    def give_up(self, _: object) -> None:
        for request in self.requests:
            request.give_up()

    def ask(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Request:
        """Have ``fn(*args)`` called and awaited. From: the scheduler's thread."""
        request = Request(self, fn, args)
        self.requests.append(request)
        self.go_on()
        return request

    def go_on(self) -> None:
        if self.idle is not None and not self.idle.done():
            self.idle.set_result(None)

    def leave(self) -> None:
        """End, when all is served."""
        self.leaving = True
        self.go_on()

    def dismiss(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Have the last ``fn(*args)`` called and awaited, and nobody wait. From: anywhere, also a finalizer."""
        self.scheduler.call(self.ask, fn, *args)
        self.scheduler.call(self.leave)

    def end(self) -> None:
        """End, and wait for that."""
        self.leave()
        Awaited(self.me, self.task).finish()

    def await_(self, timeout: float | None, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Have ``fn(*args)`` called and awaited, and wait for that. Parks: ``await``. From: whom it accompanies."""
        self.me = me = current()
        if me.scheduler is not self.scheduler:
            raise RuntimeError(f"this was begun in {self.scheduler!r}: {me!r} cannot go on with it in {me.scheduler!r}")
        awaited = Awaited(me, self.ask(fn, *args))
        awaited.copy = self.copy
        try:
            awaited.wait(timeout)
            return outcome(awaited.future)
        finally:
            del awaited  # see await_

    def finish(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Do the last ``await_``: cancels do not keep it from being begun, as asyncio's do not.

        Returns: ``CUT_SHORT`` if one has struck it; the cancel is pending then.
        """
        self.me = me = current()
        self.leaving = True
        awaited = Awaited(me, self.ask(fn, *args))
        awaited.copy = self.copy
        try:
            awaited.finish()
            if awaited.future.cancelled() and awaited.future.cancels and me.pending:
                return CUT_SHORT
            return outcome(awaited.future)
        finally:
            del awaited  # see await_


CUT_SHORT = object()


def outcome(request: Any) -> Any:
    """Return or raise what has come of a request; where others have cancelled the Task, so they have the dhaga."""
    try:
        return request.result()
    except CancelledError as error:
        if request.cancelled_by_others:
            raise Cancelled(*error.args) from error
        raise
    finally:
        del request


def enter(manager: AbstractAsyncContextManager[T, Any], timeout: float | None = None) -> Block[T]:
    """Enter an asynchronous context manager: ``with enter(pool.acquire()) as connection: ...``.

    One Task enters and leaves it. If that is cancelled, the block is interrupted: ``with enter(asyncio.timeout(1)):``
    bounds it. A cancel of the dhaga reaches the manager as CancelledError. Parks: ``await``, in the beginning, for at
    most ``timeout`` seconds, and in the end. From: a dhaga, main code. Raises: TypeError, TimeoutError, ParkError.
    """
    kind = type(manager)
    if not (hasattr(kind, "__aenter__") and hasattr(kind, "__aexit__")):
        discard(manager)
        hint = "enter it with a plain with" if hasattr(kind, "__enter__") else "it has no __aenter__ and __aexit__"
        raise TypeError(f"{manager!r} is not an asynchronous context manager: {hint}")
    return Block(manager, timeout)


class Block(Generic[T]):
    """A ``with`` block around an asynchronous context manager; see ``enter``."""

    def __init__(self, manager: AbstractAsyncContextManager[T, Any], timeout: float | None) -> None:
        self.manager: Any = manager
        self.timeout = timeout
        self.companion: Companion | None = None

    def __repr__(self) -> str:
        return f"<Block of {self.manager!r}{', entered' if self.companion else ''}>"

    def __enter__(self) -> T:
        if self.companion is not None:
            raise RuntimeError(f"{self!r} is entered already: call enter() for each block")
        companion = Companion(of_a_block=True)
        try:
            value: T = companion.await_(self.timeout, type(self.manager).__aenter__, self.manager)
        except BaseException:
            companion.end()
            raise
        self.companion = companion
        return value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        companion, self.companion = self.companion, None
        assert companion is not None
        if not can_wait(companion.scheduler):
            companion.dismiss(self.leave, companion, error)
            return False
        companion.take_back()
        pending = None
        if error is None and companion.me.pending:
            pending = error = companion.me.pending.pop(0)  # a cancel that has come meanwhile strikes here
        try:
            handled = companion.finish(self.leave, companion, error)
            if handled is CUT_SHORT and not isinstance(error, Cancelled | Expired):
                raise companion.me.pending.pop(0)
        except CancelledError:
            if not isinstance(error, Cancelled | Expired):
                raise
            handled = False  # it is what the manager was told of as a CancelledError
        if error is None or (handled and handled is not CUT_SHORT):
            return bool(handled)
        if error is companion.interruption:
            raise Cancelled("its Task was cancelled") from companion.cancelled
        if error is pending:
            raise pending
        return False

    async def leave(self, companion: Companion, error: BaseException | None) -> Any:
        """Leave the manager, in the companion, which tells it of cancels in asyncio's way."""
        if error is not None and error is companion.interruption:
            error = companion.cancelled
        elif isinstance(error, Cancelled | Expired):
            try:
                companion.requests[0].cancel()
                await asyncio.sleep(0)
            except CancelledError as cancelled:
                error = cancelled
        trace = None if error is None else error.__traceback__
        return await type(self.manager).__aexit__(self.manager, error and type(error), error, trace)


def aiter_(iterable: AsyncIterable[T], timeout: float | None = None) -> Iterator[T]:
    """Iterate over an asynchronous iterable: ``for row in aiter_(cursor): ...``. One Task makes all the steps.

    Parks: ``await``, for each item, for at most ``timeout`` seconds. From: a dhaga, main code. To close the iterator,
    or to drop it as ``break`` does, runs ``aclose()`` of an asynchronous generator and waits for that; where nobody can
    wait, it runs all the same. Raises: what the iterable does, TypeError, TimeoutError, ParkError.
    """
    if not hasattr(type(iterable), "__aiter__"):
        discard(iterable)
        hint = "iterate over it with a plain for" if hasattr(type(iterable), "__iter__") else "it has no __aiter__"
        raise TypeError(f"{iterable!r} is not an asynchronous iterable: {hint}")
    return steps(iterable.__aiter__(), timeout)


def steps(iterator: AsyncIterator[T], timeout: float | None) -> Iterator[T]:
    companion = Companion(of_a_block=False)
    try:
        while True:
            try:
                item = companion.await_(timeout, type(iterator).__anext__, iterator)
            except StopAsyncIteration:
                return
            yield item
    finally:
        close(companion, iterator)


def close(companion: Companion, iterator: Any) -> None:
    """Have a companion close its iterator and leave; wait for that if the caller can."""
    aclose = getattr(iterator, "aclose", None)
    if aclose is None:
        companion.scheduler.call(companion.leave)
    elif can_wait(companion.scheduler):
        companion.finish(aclose)
    else:
        companion.dismiss(aclose)


def can_wait(scheduler: Scheduler) -> bool:
    try:
        me = current()
    except ParkError:
        return False
    return me.scheduler is scheduler and not getattr(me, "done", False)


# ---- from coroutines


async def run_in_dhaga(fn: Callable[..., T], /, *args: Any, scheduler: Scheduler | None = None, **options: Any) -> T:
    """Call ``fn(*args)`` in a dhaga and await that: from a coroutine, what parks may be called only so.

    The dhaga is of the scheduler on the coroutine's loop, and has its context variables; one of another ``scheduler``
    has a copy. ``options``: those of ``spawn``. A cancel of the coroutine cancels the dhaga, each once, and awaits its
    end; one that returns a value all the same has it returned. ``await spawn(...)`` would leave the dhaga alone.
    Returns and raises what ``fn`` does. Raises: TypeError, RuntimeError.
    """
    if scheduler is None:
        dhaga = spawn(fn, *args, **{"context": getcurrent().gr_context, **options})
    else:
        dhaga = scheduler.spawn(fn, *args, **options)
    asked: CancelledError | None = None
    while True:
        try:
            return await dhaga
        except CancelledError as error:
            if dhaga.done:  # by its own, or in the moment of this cancel
                raise
            asked = error
            dhaga.cancel(*error.args)
        except Cancelled:
            if asked is None:
                raise
            raise asked from None


# ---- SQLAlchemy


class Above:
    """What SQLAlchemy finds above a dhaga: it waits for an awaitable by switching there with it.

    It does so in greenlets with ``__sqlalchemy_greenlet_provider__``: see its changes 1.4.53 and 2.0.31.
    """

    switch = staticmethod(await_)


ABOVE = Above()
parent = greenlet.__dict__["parent"]
Dhaga.__sqlalchemy_greenlet_provider__ = True  # type: ignore[attr-defined]
Dhaga.parent = property(lambda dhaga: ABOVE, parent.__set__)
