"""Future: the outcome of a call in a worker dhaga. ``dhaga.futures`` exports the class.

A Future is pending, running (``_worker`` is the dhaga that makes the call), or ended: finished or cancelled. The state
changes only under ``guard``, a lock shared by all Futures. Waiters are woken and callbacks are called after the release
of ``guard``. A waiter does not need ``guard``, because it first enters the queue and then checks the state again. A
Future has the private attributes that the standard ``wait`` and ``as_completed`` use.

``dhaga_pool.py`` chooses the worker of a call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor, CancelledError, InvalidStateError
from typing import TYPE_CHECKING, Any, TypeVar

from greenlet import getcurrent

from .._kernel import originals
from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.interpreter.guards import fence
from .._kernel.interpreter.requirements import FREE_THREADED
from .._kernel.wait.current import this_waiter
from .._kernel.wait.deadlock import mark_own
from .._kernel.wait.wait_queue import COMPACT_ABOVE
from .._kernel.wait.waiter import Waiter

if TYPE_CHECKING:
    from .dhaga_pool import PoolWorker

T = TypeVar("T")

guard = originals.RLock()
"""The lock of all Futures, held when a worker takes a call, when a Future changes its state, and during a fork.

Except at forks, each holder keeps ``guard`` for only a few lines, which never park. Creating a lock and a Condition for
each Future, as the standard library does, would take more time than the rest of a call.
"""

PENDING, RUNNING, FINISHED = "PENDING", "RUNNING", "FINISHED"
CANCELLED, NOTIFIED = "CANCELLED", "CANCELLED_AND_NOTIFIED"
ENDED = (CANCELLED, NOTIFIED, FINISHED)


class Future(concurrent.futures.Future[T]):
    """The outcome of a submitted call. Source: its base class, ``concurrent.futures.Future``; ``cancel`` differs.

    ``result`` and ``exception`` park a dhaga, and block a plain OS thread. A coroutine awaits the Future. If the
    coroutine is cancelled, the call is also cancelled.
    """

    _condition = threading.Condition(guard)  # acquired by the standard wait() and as_completed()
    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    _traceback: Any = None
    _worker: PoolWorker | None = None

    ended_by_dhaga = True
    """A mark for the detection of deadlocks: only this package ends the Future, see ``deadlock.mark_own``."""

    def __init__(self) -> None:
        self._joiners: list[list[Waiter]] = []
        self._left_joiners = 0
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Any], object]] = []

    def __repr__(self) -> str:
        state = "CANCELLED" if self.cancelled() else self._state
        result = ""
        if state == FINISHED:
            error = self._exception
            result = f" raised {type(error).__name__}" if error else f" returned {type(self._result).__name__}"
        parked = f", {sum(map(bool, self._joiners))} parked" if self._joiners else ""
        return f"<Future {state}{f' in {self._worker.name}' if self._worker else result}{parked}>"

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the call, and return its value or raise its exception.

        Parks: until the call has ended (``future.result``). Raises: TimeoutError; CancelledError; RuntimeError if the
        call waits for its own Future.
        """
        if self._state not in ENDED:
            self._wait_for_end(timeout)
        if self._exception is not None:
            try:
                # Each raise lengthens the traceback, so reset the traceback to its state at the end of the call.
                raise self._exception.with_traceback(self._traceback)
            finally:
                del self  # the traceback refers to this frame: break the cycle
        if self._state != FINISHED:
            raise CancelledError
        return self._result  # type: ignore[no-any-return]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the call, and return its exception, or None if it returned a value.

        Parks: as ``result`` does. Raises: TimeoutError, CancelledError, and RuntimeError in the call itself.
        """
        if self._state not in ENDED:
            self._wait_for_end(timeout)
        if self._state != FINISHED:
            raise CancelledError
        return self._exception

    def _wait_for_end(self, timeout: float | None) -> None:
        if self._worker is not None and self._worker is getcurrent():
            raise RuntimeError(f"{self!r} is waited for by the call that it stands for: that would never end")
        if timeout is not None:
            check_wait_timeout(timeout)
            if timeout <= 0:
                raise TimeoutError(f"{self!r} has not ended")
        me = this_waiter()
        me.prepare_park("future.result", self)
        self._joiners.append(me.parked)
        # Check again: the call may have ended in another OS thread just before the append.
        if self._state in ENDED:
            self._wake_joiners()
        me.park_until_woken(timeout)

    def _remove(self, waiter: Waiter | None) -> None:
        """Count a waiter that leaves the queue. If more than half of the waiters have left, remove their entries.

        So a waiter leaves in amortized O(1) time.
        """
        joiners = self._joiners
        self._left_joiners += 1
        if self._left_joiners > COMPACT_ABOVE and self._left_joiners * 2 > len(joiners):
            joiners[:] = filter(None, joiners)  # C functions, which no other OS thread interrupts
            self._left_joiners = 0

    def _wake_joiners(self) -> None:
        if len(self._joiners) > 1:
            self._joiners.reverse()
        while self._joiners:
            try:
                waiter = self._joiners.pop().pop()
            except IndexError:  # the waiter has left, or another OS thread took the last waiter
                continue
            waiter.deliver_wake()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine, on any event loop. A cancel of the coroutine cancels the call."""
        future = asyncio.wrap_future(self)
        mark_own(future)
        return future.__await__()

    def cancel(self) -> bool:
        """Cancel the call: drop a pending call, or raise ``Cancelled`` in a running call at its current or next park.

        Parks: never. From: any thread. Returns: whether the Future is already cancelled. For a running call, the result
        is False, because the call may clean up first, or return a value. Source: the standard class cannot cancel a
        running call.
        """
        if self._cancel_unbegun():
            return True
        worker = self._worker
        if worker is not None:
            worker.scheduler.call(worker.cancel_call, self)
        return False

    def _cancel_unbegun(self) -> bool:
        """Cancel the call if it has not begun, as the standard method does. Returns: whether the call is cancelled."""
        with guard:
            if self._state != PENDING:
                return self.cancelled()
            self._end(NOTIFIED)
        self._notify()
        return True

    def _begin(self, worker: PoolWorker | None) -> bool:
        """Mark the call as running. Returns: False if the call was cancelled. From: a holder of ``guard``."""
        if self._state == PENDING:
            self._state = RUNNING
            if worker is not None:
                self._worker = worker
                worker._call_future = self
            return True
        if self.cancelled():
            return False
        raise InvalidStateError(f"{self!r} has begun before")

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the call as running. Returns: False if the call was cancelled. From: the maker of the call."""
        with guard:
            return self._begin(None)

    def set_result(self, result: T) -> None:
        """End the Future with a value. From: the maker of the call."""
        with guard:
            self._end(FINISHED, result)
        if self._joiners or self._done_callbacks:
            self._notify()

    def set_exception(self, exception: BaseException | None) -> None:
        """End the Future with an error. From: the maker of the call."""
        with guard:
            self._end(FINISHED, None, exception)
        self._notify()

    def _end_cancelled(self) -> None:
        """End the Future as cancelled, because the call has raised ``Cancelled``."""
        with guard:
            self._end(NOTIFIED)
        self._notify()

    def _end(self, state: str, result: Any = None, exception: BaseException | None = None) -> None:
        """Change to an ended state, and notify ``wait`` and ``as_completed``. From: a holder of ``guard``."""
        if self._state in ENDED:
            raise InvalidStateError(f"{self!r} has ended before")
        self._result = result
        self._exception = exception
        if exception is not None:
            self._traceback = exception.__traceback__
        self._state = state
        if FREE_THREADED:
            fence(self._joiners)
        if self._worker is not None:
            self._worker._call_future = None
            self._worker = None
        for queue in self._waiters:
            tell = queue.add_result if state == FINISHED and exception is None else queue.add_exception
            (queue.add_cancelled if state == NOTIFIED else tell)(self)

    def _notify(self) -> None:
        """Wake the waiters and call the program's callbacks. The caller must not hold ``guard`` meanwhile."""
        self._wake_joiners()
        if self._done_callbacks:
            self._invoke_callbacks()  # type: ignore[attr-defined]

    def _fail_in_child(self) -> None:
        """End the Future in a forked child. No waiter is woken, because the waiters are in the parent."""
        self._exception = BrokenExecutor("the call stayed in the parent process")
        self._state = FINISHED
        self._worker = None
