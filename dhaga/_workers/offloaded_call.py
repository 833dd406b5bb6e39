"""One offloaded call: its function and context, the race of its answer with a cancel, and the thread that makes it.

A thread takes the calls of its pool, one after the other, until the pool has none for it. A simulation has a class of
threads of its own, which are dhagas (``simulation/_standard/offload.py``).

Not here: the backlog, and when a thread starts, is idle and ends (``offload.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from .._kernel import originals, outside
from .._kernel.helper_threads import BLOCKED, HelperThread
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.platform.system import system
from .._kernel.process import shutdown
from .._kernel.wait.waiter import Waiter, logger
from .switch_interval import URGENT, set_timer_slack, switch_interval

if TYPE_CHECKING:
    from .offload import OffloadPool

LOST_CHILD = 70
"""Exit status of a forked child that returns from an offloaded call: EX_SOFTWARE."""


START_SECONDS = 0.000_1
"""Seconds for which a HIGH dhaga keeps other dhagas from running until a thread has begun its call.

Beside computing dhagas the thread begins after 0.05 ms instead of 0.10, as on an idle scheduler: it finds the
interpreter lock free instead of requesting it from a dhaga that computes.
"""


class ThreadCall:
    """A work item: one function call for a thread of a pool, and the wait target of its caller."""

    __slots__ = ("callers", "error", "function", "mask", "name", "pool", "started", "urgency", "value")

    def __init__(self, pool: OffloadPool, fn: Callable[..., Any], args: Any, kwargs: Any, caller: Waiter) -> None:
        self.pool = pool
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self.function: Any = functools.partial(copy_context().run, fn, *args, **kwargs)
        # A process that the call starts inherits it.
        self.mask = system.signal_mask()
        # The answer and a cancel come from two OS threads: the one that pops the caller (an atomic step) wins.
        self.callers = [caller]
        # The class under which SwitchInterval counts the call. Thread or caller, whichever pops the class first ends
        # the count: a caller whose loop was closed without a shutdown never runs again.
        self.urgency: list[int] = []
        self.started: Any = None  # a lock, released when the call begins
        self.value: Any = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<ThreadCall of {self.name} through {self.pool.name}{'' if self.callers else ', detached'}>"

    def run(self, thread: WorkerThread) -> None:
        """Make the call and wake the caller. From: a thread of the pool.

        Arguments and outcome are kept only in this object. After the wake the thread may not run for a while, or never
        at interpreter exit, and its local variables would keep a file open.
        """
        if self.started is not None:
            self.started.release()
        try:
            self.value = self.function()
        except BaseException as error:
            self.error = error
        self.function = None
        if thread in self.pool._threads:
            self.answer()
            self.end_urgency()
        else:
            end_lost_child(self)

    def prepare(self, caller: Any) -> None:
        """Count the call for the switch interval; prepare for ``await_start``. From: the caller, before a submit."""
        self.urgency.append(switch_interval.begin(caller))
        # Not for ``finish``: a signal handler that raises there would leave an operation under way.
        leaves_early = caller.wait_target is self
        if leaves_early and self.urgency[0] == URGENT and not FREE_THREADED and caller.scheduler.run_queue:
            self.started = originals.allocate_lock()
            self.started.acquire()

    def await_start(self) -> None:
        """Block the caller's OS thread until a thread begins the call, so that it finds the interpreter lock free.

        Only in ``offload``, for a HIGH dhaga beside runnable ones, and for ``START_SECONDS`` at most.
        """
        if self.started is not None:
            self.started.acquire(True, START_SECONDS)

    def fail(self, error: BaseException) -> None:
        """Answer a call that is never made."""
        self.error = error
        self.function = None
        self.answer()

    def answer(self) -> None:
        """Wake the caller; without one, drop the outcome."""
        try:
            caller = self.callers.pop()
        except IndexError:
            self.value = self.error = None
            return
        caller.wake_parked()

    def end_urgency(self) -> None:
        """Stop counting the call for the switch interval; no-op the second time."""
        switch_interval.end(self.urgency)

    def outcome(self) -> Any:
        """Return the value or raise the error of an answered call, once."""
        value, error = self.value, self.error
        self.value = self.error = None
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: that would be a cycle

    def _remove(self, waiter: object) -> bool:
        """Undo the park of a cancelled caller: a pending call is dropped, a running one ends without an answer."""
        self.pool._withdraw(self)
        return self.detach()

    def detach(self) -> bool:
        """Remove the caller. Returns: False if the answer has won."""
        try:
            self.callers.pop()
        except IndexError:
            return False
        return True


def end_lost_child(call: ThreadCall) -> None:
    """End a child that was forked in an offloaded call and returns from that call: its caller is in the parent only."""
    error = call.error
    if not isinstance(error, SystemExit):
        logger.error("%r has forked: end the child within the call; its caller is in the parent", call, exc_info=error)
        error = SystemExit(LOST_CHILD)
    shutdown.end_process(error)


# ---- the threads


class WorkerThread(HelperThread):
    """One OS thread of a pool. Its gate, a locked lock, is released when there may be a call."""

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(pool.name)
        self.pool = pool
        self.mask = BLOCKED
        self.call: ThreadCall | None = None
        self.gate = originals.allocate_lock()
        self.gate.acquire()

    @classmethod
    def calls_inline(cls, pool: OffloadPool, me: Waiter) -> bool:
        """Return whether a caller makes its calls itself, as a thread of the pool does."""
        return current_pool.pool is pool

    def leave(self) -> None:
        """Leave the pool. From: a thread of a simulation that ends in the middle of a call."""
        self.pool._forget(self)

    def run(self) -> None:
        current_pool.pool = self.pool
        if self.run_next_call():  # first of all, because the caller waits for the start of this thread
            set_timer_slack(self.native_id)
            while self.run_next_call():
                pass

    def run_next_call(self) -> bool:
        """Run the next call. Returns: False if the thread is to end. An idle thread keeps no reference to a call."""
        call = self.pool._next_call(self)
        if call is None:
            return False
        self.call = call
        self.take_mask(call.mask)
        call.run(self)
        self.call = None
        return True

    def take_mask(self, mask: frozenset[int]) -> None:
        """Block these signals and no others: those that the caller blocks, or all signals while there is no call."""
        # Kept between calls: a change takes 3 µs.
        if mask != self.mask:
            self.mask = mask
            system.set_signal_mask(mask)


def is_started(thread: WorkerThread) -> bool:
    """Return whether a thread whose start raised runs nevertheless, or is about to: a signal handler raised there."""
    return thread.ident is not None or thread in originals.enumerate_threads()


def thread_class_for(me: Waiter) -> type[WorkerThread]:
    """Return the class of the threads that make a waiter's calls: in a simulation they are dhagas."""
    pool_thread = outside.pool_thread
    return WorkerThread if pool_thread is None else pool_thread(me) or WorkerThread


class CurrentPool(originals.local):
    """The pool that an OS thread belongs to."""

    pool: OffloadPool | None = None


current_pool = CurrentPool()
