"""The door to OS threads: run a blocking call in one, while the calling dhaga is parked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, ParamSpec, TypeVar

from .kernel import deadlock, originals
from .kernel.waiting import OSThread, Waiter, this_waiter

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS = 16
"""Calls in OS threads at once; more queue up. DNS and fsync gain nothing from more on a few cores."""

IDLE_SECONDS = 10.0
"""An idle helper thread ends after this."""


class Call:
    """One call on its way through a helper thread; the place of its caller, who is parked on it."""

    __slots__ = ("args", "caller", "context", "fn", "helpers", "kwargs")

    def __init__(self, helpers: Helpers, fn: Callable[..., Any], args: Any, kwargs: Any, caller: Waiter) -> None:
        self.helpers = helpers
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.context: Context = copy_context()
        self.caller: Waiter | None = caller

    def __repr__(self) -> str:
        return f"<Call of {getattr(self.fn, '__name__', self.fn)!s}{'' if self.caller else ', detached'}>"

    def run(self, helper: Helper) -> None:
        """Make the call, and send what came of it home."""
        value, error = None, None
        try:
            value = self.context.run(self.fn, *self.args, **self.kwargs)
        except BaseException as raised:
            error = raised
        caller = self.caller
        if caller is not None and helper in self.helpers.threads:  # not in a child that the call has forked
            caller.scheduler.call(self.deliver, value, error)
        del error  # its traceback refers to this frame

    def deliver(self, value: Any, error: BaseException | None) -> None:
        """Wake the caller, in its own OS thread, where cancels happen too: one of them comes first."""
        caller = self.detached()
        if caller is not None:
            caller.wake(value, error)

    def remove(self, waiter: object) -> bool:
        """Let the caller go, who was cancelled: a call not begun is not made, any other runs to its end for nobody."""
        self.detached()
        self.helpers.withdraw(self)
        return True

    def detached(self) -> Waiter | None:
        caller, self.caller = self.caller, None
        if caller is not None:
            caller.scheduler.outside_calls -= 1
        return caller


class Helpers:
    """Helper threads that take calls in order; they are started as needed, and end when idle for long."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.guard = originals.allocate_lock()
        self.calls: deque[Call] = deque()
        self.threads: set[Helper] = set()
        self.free: list[Helper] = []

    def __repr__(self) -> str:
        return f"<Helpers {len(self.threads)} threads, {len(self.free)} free, {len(self.calls)} calls due>"

    def submit(self, call: Call) -> None:
        """Have a call made. Raises: RuntimeError if there is no thread and none can be started."""
        with self.guard:
            self.calls.append(call)
            if self.free:
                self.free.pop().gate.release()
                return
            if len(self.threads) == self.limit:
                return
            helper = Helper(self)
            self.threads.add(helper)
        try:
            helper.start()
        except BaseException:
            self.threads.discard(helper)
            if not self.threads and self.withdraw(call):
                raise

    def withdraw(self, call: Call) -> bool:
        """Take back a call that no thread has begun; False if it is too late."""
        with self.guard:
            try:
                self.calls.remove(call)
            except ValueError:
                return False
            return True

    def next_call(self, helper: Helper) -> Call | None:
        with self.guard:
            if self.calls:
                return self.calls.popleft()
            self.free.append(helper)
            return None

    def dismissed(self, helper: Helper) -> bool:
        """Let an idle helper go, unless it was given work just now."""
        with self.guard:
            if helper not in self.free:
                return False
            self.free.remove(helper)
            self.threads.discard(helper)
            return True

    def forget(self) -> None:
        """Start anew in a forked child, where the threads are gone."""
        self.__init__(self.limit)  # type: ignore[misc]


class Helper(originals.Thread):
    """One helper thread. Its gate opens when there is work."""

    def __init__(self, helpers: Helpers) -> None:
        super().__init__(name="dhaga-offload", daemon=True)
        self.helpers = helpers
        self.gate = originals.allocate_lock()
        self.gate.acquire()

    def run(self) -> None:
        while self in self.helpers.threads:
            call = self.helpers.next_call(self)
            if call is not None:
                call.run(self)
                del call  # and with it what it returned, while idle
            elif not self.woken() and not self.helpers.dismissed(self):
                self.gate.acquire()

    def woken(self) -> bool:
        """Wait for work; False if none has come."""
        ident = originals.get_ident()
        deadlock.idle.add(ident)
        try:
            return self.gate.acquire(timeout=IDLE_SECONDS)
        finally:
            deadlock.idle.discard(ident)


helpers = Helpers(MAX_THREADS)
originals.after_fork_in_child(helpers.forget)


def offload(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking call in an OS thread while the calling dhaga is parked; a plain thread runs it itself.

    Parks: ``offload``, until the call returns. Context variables go along. A cancel lets the caller go at once: a call
    that has not begun is not made, any other runs to its end in its thread, and its result is dropped.
    Returns and raises what ``fn`` does. Raises: ParkError, RuntimeError if no OS thread can be started.
    """
    me = this_waiter()
    if isinstance(me, OSThread):
        return fn(*args, **kwargs)
    call = Call(helpers, fn, args, kwargs, me)
    me.prepare("offload", call)
    me.scheduler.outside_calls += 1
    try:
        helpers.submit(call)
    except BaseException as error:
        call.deliver(None, error)  # to be raised by the park
    return me.park()  # type: ignore[no-any-return]
