"""The OS threads of an ``OffloadPool``, and which class of threads makes a caller's calls.

A thread takes the pool's calls, one after the other, until the pool has none for it. A simulation has a class of its
own, whose threads are dhagas (``simulation/_offload.py``).

Not here: the backlog, and when a thread starts, is idle and ends (``thread_pool.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._kernel import hooks, originals
from .._kernel.wait.waiter import Waiter
from .switch_interval import set_timer_slack
from .thread_call import ThreadCall

if TYPE_CHECKING:
    from .thread_pool import OffloadPool


class WorkerThread(originals.Thread):
    """One OS thread of a pool. Its gate, a locked lock, is released when there may be a call."""

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(name=pool.name, daemon=True)
        self.pool = pool
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
        if self.run_next_call():  # first of all, as the caller waits for the start of this thread
            set_timer_slack(self.native_id)
            while self.run_next_call():
                pass

    def run_next_call(self) -> bool:
        """Run the next call. Returns: False if the thread is to end. An idle thread keeps no reference to a call."""
        call = self.pool._next_call(self)
        if call is None:
            return False
        self.call = call
        call.run(self)
        self.call = None
        return True


def is_started(thread: WorkerThread) -> bool:
    """Return whether a thread whose start raised runs nevertheless, or is about to: a signal handler raised there."""
    return thread.ident is not None or thread in originals.enumerate_threads()


def thread_class_for(me: Waiter) -> type[WorkerThread]:
    """Return the class of the threads that make a waiter's calls: in a simulation they are dhagas."""
    on_offload = hooks.on_offload
    return WorkerThread if on_offload is None else on_offload(me) or WorkerThread


class CurrentPool(originals.local):
    """The pool that an OS thread belongs to."""

    pool: OffloadPool | None = None


current_pool = CurrentPool()
