"""One offloaded call: a function that an OS thread calls, and the caller that parks until the answer or a cancel.

The answer competes with a cancel: the thread that removes the caller from ``ThreadCall.callers`` wins.
``worker_threads.py`` has the backlog, and the threads that make the calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

from .._kernel import originals
from .._kernel.context_manager import contextmanager
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.platform.system import system
from .._kernel.wait.thread_waiter import OSThread
from .._kernel.wait.waiter import Waiter
from .switch_interval import URGENT, switch_interval
from .worker_threads import Workers, WorkerThread

START_SECONDS = 0.000_1
"""Maximum time, in seconds, for which a dhaga with the priority HIGH blocks its scheduler until a thread has begun the
dhaga's call.

While other dhagas compute, the thread then begins the call after 0.05 ms instead of 0.10 ms. This is as fast as on an
idle scheduler, because the thread finds the interpreter lock free and need not request it from a computing dhaga.
"""


class ThreadCall:
    """A function call for a thread of a pool. The caller of ``offload`` waits for the call."""

    __slots__ = ("callers", "error", "function", "mask", "name", "started", "urgency", "value", "workers")

    def __init__(self, workers: Workers, fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.workers: Workers = workers
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self.function: Any = functools.partial(copy_context().run, fn, *args, **kwargs)
        # The caller's signal mask, for the call's thread: a process that the call starts inherits the mask.
        self.mask: frozenset[int] = system.signal_mask()
        # The answer and a cancel come from two OS threads. The thread that pops the caller (an atomic step) wins.
        self.callers: list[Waiter] = []
        # The class under which SwitchInterval counts the call. The thread and the caller both try to pop the class; the
        # one that succeeds removes the call from the counts. The thread must try because the caller may never run
        # again, if its loop was closed without a shutdown.
        self.urgency: list[int] = []
        self.started: Any = None  # a lock, released when the call begins
        self.value: Any = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<ThreadCall of {self.name} through {self.workers.name}{'' if self.callers else ', detached'}>"

    # ---- the caller

    def outcome_for(self, me: Waiter, kind: type[WorkerThread], reason: str) -> Any:
        """Submit the call, park, and return or raise the call's outcome. A cancel ends the park at once.

        ``kind``: the class of the threads that make the caller's calls.
        """
        self.callers.append(me)
        me.prepare_park(reason, self)
        return self.park_for_outcome(me, kind, hurries=True)

    def outcome_in_spite_of_cancels(self, me: Waiter, kind: type[WorkerThread], reason: str) -> Any:
        """Submit the call, park, and return or raise the call's outcome. A cancel stays pending."""
        self.callers.append(me)
        me.prepare_uncancellable(reason)
        # hurries=False: if a signal handler raised an error while the caller blocked, the call would continue without
        # its caller.
        return self.park_for_outcome(me, kind, hurries=False)

    def park_for_outcome(self, me: Waiter, kind: type[WorkerThread], hurries: bool) -> Any:
        """Submit the call and park. ``hurries``: block the OS thread of a HIGH caller until the call begins."""
        failure: BaseException | None = None
        try:
            if kind is WorkerThread:
                self.urgency.append(switch_interval.begin(me))
                if hurries:
                    self.prepare_start(me)
            if self.workers.submit(self, kind):
                self.await_start()
        except BaseException as error:
            # Answer the call as usual: the caller has prepared a park, and must park to return to the running state.
            failure = error
            self.workers.withdraw(self)
            self.answer()
        try:
            with outside_call(me, kind):
                me.park_until_woken()
        finally:
            self.end_urgency()
            self.detach()  # needed after a second Ctrl-C, which ends any park without an answer
        if failure is None:
            return self.outcome()
        try:
            raise failure
        finally:
            del failure  # the traceback refers to this frame: break the cycle

    def prepare_start(self, me: Any) -> None:
        """Set ``started`` for a HIGH caller if other dhagas are runnable, so that ``await_start`` blocks."""
        if self.urgency[0] == URGENT and not FREE_THREADED and me.scheduler.run_queue:
            self.started = originals.allocate_lock()
            self.started.acquire()

    def await_start(self) -> None:
        """If ``started`` is a lock, block until a thread begins the call, for at most ``START_SECONDS``."""
        if self.started is not None:
            self.started.acquire(True, START_SECONDS)

    def outcome(self) -> Any:
        """Return the value or raise the error of an answered call. May be called only once."""
        value, error = self.value, self.error
        self.value = self.error = None
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # the traceback refers to this frame: break the cycle

    def _remove(self, waiter: object) -> bool:
        """Undo the park of a cancelled caller. A pending call is dropped, and a running call ends without an answer."""
        self.workers.withdraw(self)
        return self.detach()

    def detach(self) -> bool:
        """Remove the caller. Returns: False if the answer has removed the caller before."""
        try:
            self.callers.pop()
        except IndexError:
            return False
        return True

    # ---- the answer

    def fail(self, error: BaseException) -> None:
        """Answer the call with an error, without making the call."""
        self.error = error
        self.function = None
        self.answer()

    def answer(self) -> None:
        """Wake the caller, or drop the outcome if the caller was cancelled."""
        try:
            caller = self.callers.pop()
        except IndexError:
            self.value = self.error = None
            return
        caller.wake_parked()

    def end_urgency(self) -> None:
        """Remove the call from the counts of ``switch_interval``. A second call does nothing."""
        switch_interval.end(self.urgency)


@contextmanager
def outside_call(me: Waiter, kind: type[WorkerThread] = WorkerThread) -> Iterator[None]:
    """Count an expected wake from an OS thread. Meanwhile no deadlock is reported, and virtual clocks stand still.

    ``kind``: the class of the thread that wakes the caller. A simulated thread is a dhaga, and is not counted.
    """
    scheduler = None if isinstance(me, OSThread) or kind is not WorkerThread else me.scheduler
    if scheduler is not None:
        scheduler.outside_calls += 1
    try:
        yield
    finally:
        if scheduler is not None:
            scheduler.outside_calls -= 1
