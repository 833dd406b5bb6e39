"""Calls on their way to an OS thread and back: what may be called there, and who waits for what comes of it.

Not here: the threads (``offload.py``).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from .kernel import exit
from .kernel.waiter import Waiter, logger

if TYPE_CHECKING:
    from .offload import Helper, OffloadPool

LOST_CHILD = 70
"""Exit status of a forked child that returns from an offloaded call: EX_SOFTWARE."""

UNFIT = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_GENERATOR


class Call:
    """One call on its way through a pool; the place of its caller, who is parked on it."""

    __slots__ = ("callers", "error", "name", "pool", "value", "work")

    def __init__(self, pool: OffloadPool, fn: Callable[..., Any], args: Any, kwargs: Any, caller: Waiter) -> None:
        self.pool = pool
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self.work: Any = functools.partial(copy_context().run, fn, *args, **kwargs)
        self.callers = [caller]  # taking it out is the atomic claim: the answer and a cancel come from two threads
        self.value: Any = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Call of {self.name} through {self.pool.name}{'' if self.callers else ', detached'}>"

    def make(self, helper: Helper) -> None:
        """Make the call, and wake the caller.

        What goes in and comes out is kept here alone, for the caller to take: this thread may not run again for a
        while after the wake, at interpreter exit never, and must not hold on to a file, say.
        """
        try:
            self.value = self.work()
        except BaseException as error:
            self.error = error
        self.work = None
        if helper in self.pool.threads:
            self.answer()
        else:
            end_lost_child(self)

    def answer(self) -> None:
        """Wake the caller, unless it was let go."""
        try:
            caller = self.callers.pop()
        except IndexError:
            self.value = self.error = None
            return
        caller.unpark()

    def outcome(self) -> Any:
        """Return the value, or raise the error, of a call that has been answered; to be taken once."""
        value, error = self.value, self.error
        self.value = self.error = None
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: that would be a cycle

    def remove(self, waiter: object) -> bool:
        """Let the caller go, who was cancelled: a call not begun is not made, any other runs to its end for nobody."""
        self.pool.withdraw(self)
        return self.detach()

    def detach(self) -> bool:
        """Have the call answer nobody; False if the answer is under way."""
        try:
            self.callers.pop()
        except IndexError:
            return False
        return True


def end_lost_child(call: Call) -> None:
    """End a child that a call has forked and come back in: who made the call is in the parent alone."""
    error = call.error
    if not isinstance(error, SystemExit):
        logger.error("%r has forked: end the child within the call, it has nobody to return to", call, exc_info=error)
        error = SystemExit(LOST_CHILD)
    exit.end_process(error)


def refuse_unfit(fn: Any) -> None:
    """Raises: TypeError, with what to do, for what a thread cannot call, or only seems to."""
    inner = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    flags = getattr(getattr(inner, "__code__", None), "co_flags", 0)
    if inspect.iscoroutine(fn):
        if inspect.getcoroutinestate(fn) == inspect.CORO_CREATED:
            fn.close()  # it is not to warn besides that it was never awaited
        raise TypeError(f"offload needs a function to call, not {fn!r}: in a dhaga call await_(coroutine)")
    if not callable(fn):
        raise TypeError(f"offload needs a function to call, not {fn!r}: offload(fn, *args), not offload(fn(*args))")
    if flags & inspect.CO_GENERATOR:
        raise TypeError(f"{fn!r} is a generator function, whose body would run in the caller: offload one that uses it")
    if flags & UNFIT:
        raise TypeError(
            f"{fn!r} is a coroutine function, and offload calls plain ones: in a dhaga call dhaga.await_ with what it "
            "returns, in a coroutine await that (and run_in_dhaga what would park: both come with dhaga.aio)"
        )
