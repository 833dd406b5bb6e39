"""The OS threads of an ``OffloadPool``, and the pool's backlog of calls that no thread has begun.

A call is in the backlog (``calls``), is made by a thread (``WorkerThread.call``), or is answered. A thread is busy or
idle. An idle thread is in ``idle``, and waits for its ``gate``, a lock. The thread that became idle last is woken
first, so that the others reach ``IDLE_SECONDS`` and end. ``guard``, an OS lock held for a few lines, protects
``calls``, ``threads``, ``idle`` and ``closed``. A caller that submits a call wakes an idle thread, or, below the limit,
starts a new thread. Each thread takes calls until the backlog is empty. So if a new thread cannot be started, another
thread makes the call.

Rejected: a condition variable for idle threads. It wakes threads in FIFO order, so that all threads would stay alive.

In a simulation the threads are dhagas (``simulation/_standard/offload.py``). ``offloaded_call.py`` has the class of a
call, in which the caller parks.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from .._kernel import originals
from .._kernel.helper_threads import BLOCKED, GONE_SECONDS, HelperThread
from .._kernel.platform.system import system
from .._kernel.process import process_exit
from .._kernel.wait import deadlock
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter, logger
from .switch_interval import set_timer_slack

if TYPE_CHECKING:
    from .offload import OffloadPool
    from .offloaded_call import ThreadCall

IDLE_SECONDS = 10.0
"""Seconds after which an idle thread of a pool ends."""

LOST_CHILD = 70
"""EX_SOFTWARE, the exit status of a forked child that returns from an offloaded call."""


class Workers:
    """The threads and the backlog of one pool."""

    def __init__(self, pool: OffloadPool, limit: int) -> None:
        self.pool: OffloadPool = pool  # the threads keep the pool alive: the interpreter's exit must find it
        self.name: str = pool.name
        self.limit: int = limit
        self.closed: bool = False
        self.reset()

    def reset(self) -> None:
        """Remove all calls and threads. From: ``__init__``, and a forked child."""
        self.guard: Any = originals.RLock()  # re-entrant: a finalizer or a signal handler may interrupt its holder
        self.calls: OrderedDict[ThreadCall, None] = OrderedDict()  # a dictionary, to withdraw a call in O(1)
        self.threads: set[WorkerThread] = set()
        self.idle: list[WorkerThread] = []
        self.shutdown_waiters: WaitQueue = WaitQueue(self, f"shutdown {self.name}")

    def __repr__(self) -> str:
        state = ", shut down" if self.closed else ""
        return (
            f"<OffloadPool {self.name}, {len(self.threads)} of {self.limit} threads, {len(self.idle)} free, "
            f"{len(self.calls)} calls due{state}>"
        )

    # ---- calls of the program's dhagas

    def submit(self, call: ThreadCall, kind: type[WorkerThread]) -> bool:
        """Append a call to the backlog, and wake or start a thread. ``kind``: the class of a new thread.

        Returns: whether an idle thread was woken for the call.
        Raises: RuntimeError after shutdown, or if no thread can be started for the call; the error of a signal handler
        that runs while a thread starts. After a handler's error the call may still be in the backlog or in a thread.
        """
        with self.guard:
            if self.closed:
                raise RuntimeError(f"{self!r} takes no more calls")
            self.calls[call] = None
            if self.idle:
                self.wake_idle_thread()
                return True
            if len(self.threads) == self.limit:
                return False
            thread = kind(self.pool)
            self.threads.add(thread)
        try:
            thread.start()
        except BaseException as error:
            if is_started(thread):
                raise
            # If another thread is left, that thread takes the call. If the start of that thread also fails, its starter
            # fails the call.
            left_behind = self.discard(thread)
            for other in left_behind:
                if other is not call:
                    other.fail(RuntimeError(f"no thread of {self!r} could be started: {error}"))
            if call in left_behind:
                raise
        return False

    def withdraw(self, call: ThreadCall) -> bool:
        """Remove a call from the backlog. Returns: False if a thread has begun the call."""
        with self.guard:
            return self.calls.pop(call, call) is None

    def discard(self, thread: WorkerThread) -> list[ThreadCall]:
        """Remove a thread that could not be started. Returns: the backlog's calls if no other thread is left."""
        with self.guard:
            self.threads.discard(thread)
            left_behind = [] if self.threads else list(self.calls)
            if left_behind:
                self.calls.clear()
        self.wake_shutdown_waiters()
        return left_behind

    def wake_idle_thread(self) -> None:
        """Open the gate of the thread that became idle last. From: the holder of the guard."""
        thread = self.idle.pop()
        deadlock.idle.discard(thread.ident or 0)
        thread.gate.release()

    # ---- calls of the pool's threads

    def next_call(self, thread: WorkerThread) -> ThreadCall | None:
        """Wait for the next call, and store it in ``thread.call``. Returns: None if the thread must end.

        Under the guard, a call that has not ended is always in the backlog or in a thread (``unfinished_calls``).
        """
        while thread in self.threads:  # false in a child that the last call has forked
            with self.guard:
                if self.calls:
                    thread.call = self.calls.popitem(last=False)[0]
                    return thread.call
                if self.closed:
                    self.threads.discard(thread)
                    break
                self.idle.append(thread)
                deadlock.mark_idle(originals.get_ident())
            thread.take_mask(BLOCKED)
            if not thread.gate.acquire(timeout=IDLE_SECONDS):
                self.end_if_idle(thread)
        self.wake_shutdown_waiters()
        return None

    def end_if_idle(self, thread: WorkerThread) -> None:
        """Remove a thread after its idle time, unless the thread was woken meanwhile.

        The guard makes the removal atomic: callers see the thread either idle or gone. A wake at that moment leaves the
        gate open. The gate is closed again, because otherwise the thread's next wait would end without a wake.
        """
        with self.guard:
            if thread in self.idle:
                self.idle.remove(thread)
                deadlock.idle.discard(originals.get_ident())
                self.threads.discard(thread)
            else:
                thread.gate.acquire(timeout=0)

    def wake_shutdown_waiters(self) -> None:
        """Wake the callers of ``shutdown``, if the last thread has ended."""
        if not self.threads:
            self.shutdown_waiters.wake_all()

    # ---- shutdown, interpreter exit, fork

    def close(self) -> list[WorkerThread]:
        """Reject further calls, and end the threads once the backlog is empty. Returns: the threads."""
        with self.guard:
            self.closed = True
            threads = list(self.threads)
            while self.idle:
                self.wake_idle_thread()
        return threads

    def wait_for_end(self, timeout: float | None) -> None:
        """Wait for the end of all threads. Parks: until then (``shutdown NAME``).

        Raises: TimeoutError with the unfinished calls in its text.
        """
        if not self.threads:
            return
        if self.shutdown_waiters.wait(True, self.wake_shutdown_waiters, timeout) is TIMED_OUT:
            raise TimeoutError(f"{self!r} was told to end, but these calls did not: {self.unfinished_calls()}")

    def unfinished_calls(self) -> list[ThreadCall]:
        """Return the calls that are under way, and the calls of the backlog."""
        with self.guard:
            calls = [*(thread.call for thread in self.threads), *self.calls]
        return [call for call in calls if call is not None and call.function is not None]

    def is_settling(self) -> bool:
        """Return whether some thread has made its call but is not idle yet. From: any thread.

        The result may be out of date when the method returns.
        """
        idle = list(self.idle)
        busy = [thread.call for thread in list(self.threads) if thread not in idle]
        return any(call is None or call.function is None for call in busy)

    def end_idle_threads(self) -> list[WorkerThread]:
        """End the idle threads. Returns: these threads, or an empty list if another caller holds the guard.

        From: the hook before a fork.
        """
        if not self.guard.acquire(timeout=GONE_SECONDS):
            return []
        try:
            ended = list(self.idle)
            while self.idle:
                self.threads.discard(self.idle[-1])
                self.wake_idle_thread()
            return ended
        finally:
            self.guard.release()


class WorkerThread(HelperThread):
    """One OS thread of a pool. While idle, it waits for its gate, a lock that is released when a call is pending."""

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(pool.name)
        self.pool: OffloadPool = pool
        self.workers: Workers = pool.workers
        self.mask: frozenset[int] = BLOCKED
        self.call: ThreadCall | None = None
        self.gate: Any = originals.allocate_lock()
        self.gate.acquire()

    @classmethod
    def calls_inline(cls, pool: OffloadPool, me: Waiter) -> bool:
        """Return whether the caller runs in a thread of the pool, or in a finalizer or signal handler that has
        interrupted the holder of the pool's guard. Such a caller makes its calls inline: no thread could take them.
        """
        return current_pool.pool is pool or pool.workers.guard._is_owned()

    def leave(self) -> None:
        """Remove this thread from the pool. From: a simulated thread that ends in the middle of a call."""
        self.workers.discard(self)

    def run(self) -> None:
        current_pool.pool = self.pool
        if self.run_next_call():  # make the call first, because its caller may wait for the call's start
            set_timer_slack(self.native_id)
            while self.run_next_call():
                pass

    def run_next_call(self) -> bool:
        """Run the next call, and drop all references to it. Returns: False if the thread must end."""
        call = self.workers.next_call(self)
        if call is None:
            return False
        self.take_mask(call.mask)
        self.make(call)
        self.call = None
        return True

    def make(self, call: ThreadCall) -> None:
        """Make a call and wake its caller.

        Arguments and outcome are kept only in the call, not in local variables. After the wake, the thread may run
        again only after a while, or, at interpreter exit, never. In the meantime, its local variables could keep a file
        open.
        """
        if call.started is not None:
            call.started.release()
        try:
            call.value = call.function()
        except BaseException as error:
            call.error = error
        call.function = None
        if self in self.workers.threads:
            call.answer()
            call.end_urgency()
        else:
            end_lost_child(call)

    def take_mask(self, mask: frozenset[int]) -> None:
        """Set the thread's signal mask: the caller's mask during a call, and all signals while the thread is idle."""
        # The same mask is not set again, because setting a mask takes 3 µs.
        if mask != self.mask:
            self.mask = mask
            system.set_signal_mask(mask)


def is_started(thread: WorkerThread) -> bool:
    """Return whether a thread runs or will run. Both are possible even if ``start`` has raised an error, for example a
    signal handler's error.
    """
    return thread.ident is not None or thread in originals.enumerate_threads()


class CurrentPool(originals.local):
    """The pool to which an OS thread belongs, or None."""

    pool: OffloadPool | None = None


current_pool = CurrentPool()


def end_lost_child(call: ThreadCall) -> None:
    """End a forked child that is about to return from its offloaded call, because the caller is in the parent."""
    error = call.error
    if not isinstance(error, SystemExit):
        logger.error("%r has forked: end the child within the call; its caller is in the parent", call, exc_info=error)
        error = SystemExit(LOST_CHILD)
    process_exit.end_process(error)
