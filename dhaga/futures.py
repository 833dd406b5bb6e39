"""The standard ``concurrent.futures`` on dhagas: Future, wait and as_completed that park, and an Executor.

A Future is what comes of a call; who makes the call: ``workers.py``. Calls in several OS threads: ``pool.py``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    InvalidStateError,
)
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.callers import scheduler_here
from .kernel.errors import ParkError
from .kernel.scheduler import Scheduler
from .kernel.waiter import Waiter
from .kernel.waiting import this_waiter
from .locks import clock_here
from .queue import Empty, SimpleQueue
from .workers import Staff, Worker, guard

if TYPE_CHECKING:
    from .pool import Pool

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "as_completed",
    "wait",
]

P = ParamSpec("P")
T = TypeVar("T")

PENDING, RUNNING, FINISHED = "PENDING", "RUNNING", "FINISHED"
CANCELLED, NOTIFIED = "CANCELLED", "CANCELLED_AND_NOTIFIED"
OVER = (CANCELLED, NOTIFIED, FINISHED)


class Future(concurrent.futures.Future[T]):
    """What comes of a call. Source: ``concurrent.futures.Future``, of which it is one.

    ``result`` and ``exception`` park in a dhaga and block a plain thread; a coroutine awaits the Future, whose cancel
    goes on to the call. The difference is ``cancel``.
    """

    _condition = threading.Condition(guard)  # what the standard wait() and as_completed() take hold of
    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    worker: Worker | None = None

    def __init__(self) -> None:
        self.joiners: list[Waiter] = []
        self._waiters: list[Any] = []
        self._done_callbacks: list[Callable[[Any], object]] = []

    def __repr__(self) -> str:
        state = "CANCELLED" if self.cancelled() else self._state
        result = ""
        if state == FINISHED:
            error = self._exception
            result = f" raised {type(error).__name__}" if error else f" returned {type(self._result).__name__}"
        parked = f", {len(self.joiners)} parked" if self.joiners else ""
        return f"<Future {state}{f' in {self.worker.name}' if self.worker else result}{parked}>"

    def result(self, timeout: float | None = None) -> T:
        """Wait for the end of the call and return its value, or raise its exception.

        Parks: while it has not ended (``future.result``). Raises: TimeoutError, CancelledError, RuntimeError in the
        call itself.
        """
        if self._state not in OVER:
            self.wait_for_end(timeout)
        if self._exception is not None:
            try:
                raise self._exception
            finally:
                del self  # the traceback holds this frame: that would be a cycle
        if self._state != FINISHED:
            raise CancelledError
        return self._result  # type: ignore[no-any-return]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the call and return its exception, None if it has returned.

        Parks: as ``result``. Raises: TimeoutError, CancelledError.
        """
        if self._state not in OVER:
            self.wait_for_end(timeout)
        if self._state != FINISHED:
            raise CancelledError
        return self._exception

    def wait_for_end(self, timeout: float | None) -> None:
        if self.worker is not None and self.worker is getcurrent():
            raise RuntimeError(f"{self!r} is waited for by the call that it stands for: that would never end")
        if timeout is not None and timeout <= 0:
            raise TimeoutError(f"{self!r} has not ended")
        me = this_waiter()
        me.prepare("future.result", self)
        self.joiners.append(me)
        if self._state in OVER:  # it ended in another OS thread just now, and may have missed this waiter
            self.release_joiners()
        me.park(timeout)

    def remove(self, waiter: Waiter) -> None:
        """Undo a wait."""
        self.joiners.remove(waiter)

    def release_joiners(self) -> None:
        while self.joiners:
            try:
                waiter = self.joiners.pop(0)
            except IndexError:  # another OS thread took the last one
                return
            waiter.unpark()

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in a coroutine, of any loop; the coroutine's cancel goes on to the call."""
        return asyncio.wrap_future(self).__await__()

    def cancel(self) -> bool:
        """Cancel the call: one that has not begun is not made; one that runs gets ``Cancelled`` at its next park.

        Parks: never. From: any thread. Returns: whether the Future is cancelled now. So it is False for a running call,
        as the standard says, though that is told to end: it may clean up first, or return all the same.
        """
        if self.withdraw():
            return True
        worker = self.worker
        if worker is not None:
            worker.scheduler.call(worker.cancel_call, self)
        return False

    def withdraw(self) -> bool:
        """Cancel the call unless it has begun: the standard's ``cancel``. Returns: whether the Future is cancelled."""
        with guard:
            if self._state != PENDING:
                return self.cancelled()
            self.end(NOTIFIED)
        self.tell()
        return True

    def begin(self, worker: Worker | None) -> bool:
        """Mark the call as running; False if it was cancelled before. Under the guard."""
        if self._state == PENDING:
            self._state = RUNNING
            if worker is not None:
                self.worker = worker
                worker.making = self
            return True
        if self.cancelled():
            return False
        raise InvalidStateError(f"{self!r} has begun before")

    def set_running_or_notify_cancel(self) -> bool:
        """Mark the call as running; False if it was cancelled before. For whoever makes the call."""
        with guard:
            return self.begin(None)

    def set_result(self, result: T) -> None:
        """End with a value; for whoever makes the call."""
        with guard:
            self.end(FINISHED, result)
        if self.joiners or self._done_callbacks:
            self.tell()

    def set_exception(self, exception: BaseException | None) -> None:
        """End with an error; for whoever makes the call."""
        with guard:
            self.end(FINISHED, None, exception)
        self.tell()

    def end_cancelled(self) -> None:
        """End as cancelled: the call has let ``Cancelled`` through."""
        with guard:
            self.end(NOTIFIED)
        self.tell()

    def end(self, state: str, result: Any = None, exception: BaseException | None = None) -> None:
        """Change the state to that of the end, under the guard; whoever watches several futures learns of it here."""
        if self._state in OVER:
            raise InvalidStateError(f"{self!r} has ended before")
        self._result = result
        self._exception = exception
        self._state = state
        if self.worker is not None:
            self.worker.making = None
            self.worker = None
        for watch in self._waiters:
            tell = watch.add_result if state == FINISHED and exception is None else watch.add_exception
            (watch.add_cancelled if state == NOTIFIED else tell)(self)

    def tell(self) -> None:
        """Wake whoever waits for the end, and call the callbacks."""
        self.release_joiners()
        if self._done_callbacks:
            self._invoke_callbacks()  # type: ignore[attr-defined]

    def leave_behind(self) -> None:
        """End in a forked child, where nobody will make the call, and tell nobody: they are in the parent."""
        self._exception = BrokenExecutor("the call stayed in the parent process")
        self._state = FINISHED
        self.worker = None


# ---- waiting for several


class Watch(SimpleQueue[Any]):
    """Gets each Future that ends: what the standard calls a waiter."""

    __slots__ = ()

    add_result = add_exception = add_cancelled = SimpleQueue.put


class LocalWaiters(list[Any]):
    """The waiters of a call on one scheduler: in the OS thread that is to make it, a standard ``wait`` never ends."""

    __slots__ = ("ident",)

    def __init__(self, scheduler: Scheduler) -> None:
        self.ident = scheduler.ident

    def append(self, waiter: Any) -> None:
        if not isinstance(waiter, Watch) and self.ident == originals.get_ident():
            raise RuntimeError(
                "the standard wait() and as_completed() would block the OS thread that is to make these calls: take "
                "those of dhaga.futures, or an Executor over a Pool"
            )
        super().append(waiter)


@contextlib.contextmanager
def watching(futures: Iterable[Any]) -> Iterator[Watch]:
    """Give a queue to which each of the futures, standard ones too, comes when it has ended."""
    watch = Watch()
    try:
        for future in futures:
            with future._condition:
                if future._state in (NOTIFIED, FINISHED):
                    watch.put(future)
                else:
                    future._waiters.append(watch)
        yield watch
    finally:
        for future in futures:
            with future._condition:
                if watch in future._waiters:
                    future._waiters.remove(watch)


def check_futures(fs: Iterable[Any]) -> set[Any]:
    futures = set(fs)
    for future in futures:
        if not isinstance(future, concurrent.futures.Future):
            raise TypeError(f"this waits for futures of concurrent.futures or dhaga.futures, not for {future!r}")
    return futures


def time_left(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that tells how many seconds are left, 0 at the least; None: any number."""
    if timeout is None:
        return lambda: None
    clock = clock_here()
    deadline = clock() + timeout
    return lambda: max(0.0, deadline - clock())


def wait(
    fs: Iterable[concurrent.futures.Future[T]], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> concurrent.futures._base.DoneAndNotDoneFutures[T]:
    """Wait for some of the futures, as ``concurrent.futures.wait`` does; here a dhaga parks meanwhile.

    Parks: until ``return_when`` (``queue.get``), at most ``timeout`` seconds. Returns: ``(done, not_done)``, two sets.
    Raises: ValueError, TypeError.
    """
    if return_when not in (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION):
        raise ValueError(f"return_when is ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION, not {return_when!r}")
    futures, done = check_futures(fs), set[Any]()
    left = time_left(timeout)
    with watching(futures) as watch, contextlib.suppress(Empty):
        while not enough(done, futures, return_when):
            done.add(watch.get(timeout=left()))
            while not watch.empty():
                done.add(watch.get())
    return concurrent.futures._base.DoneAndNotDoneFutures(done, futures - done)


def enough(done: set[Any], futures: set[Any], return_when: str) -> bool:
    if len(done) == len(futures):
        return True
    if return_when == FIRST_COMPLETED:
        return bool(done)
    return return_when == FIRST_EXCEPTION and any(not future.cancelled() and future.exception() for future in done)


def as_completed(
    fs: Iterable[concurrent.futures.Future[T]], timeout: float | None = None
) -> Iterator[concurrent.futures.Future[T]]:
    """Give the futures as they end, as ``concurrent.futures.as_completed`` does; here a dhaga parks meanwhile.

    Parks: until the next one has ended (``queue.get``). Raises: TimeoutError ``timeout`` seconds after this call,
    TypeError.
    """
    return ended(check_futures(fs), time_left(timeout))


def ended(futures: set[Any], left: Callable[[], float | None]) -> Iterator[Any]:
    with watching(list(futures)) as watch:
        while futures:
            try:
                future = watch.get(timeout=left())
            except Empty:
                raise TimeoutError(f"{len(futures)} futures have not ended") from None
            futures.discard(future)
            yield future
            del future  # it may be the last reference to a large result


# ---- the executor


def check_count(what: str, count: int) -> int:
    """Return a number of things that must be there. Raises: TypeError, ValueError."""
    if not isinstance(count, int):
        raise TypeError(f"{what} is a number of them, not {count!r}")
    if count < 1:
        raise ValueError(f"{what} must be 1 or more, not {count}")
    return count


class Executor(concurrent.futures.Executor):
    """Give dhagas to whoever asks for an executor. Source: ``concurrent.futures.Executor``.

    Over a ``Pool``, or over the scheduler of whoever submits: at most ``dhagas`` calls at once there, which run while
    that OS thread parks or runs its loop, and so not while it waits by standard means. The end of a ``with`` block, and
    ``shutdown``, wait for the calls of this executor; a pool stays open.
    """

    def __init__(self, pool: Pool | None = None, dhagas: int = 1000) -> None:
        self.pool = pool
        self.dhagas = check_count("dhagas", dhagas)
        self.staffs: dict[Scheduler, Staff] = {}
        self.futures: set[Future[Any]] = set()
        self.closed = False

    def __repr__(self) -> str:
        where = "the scheduler of the caller" if self.pool is None else repr(self.pool)
        return f"<Executor over {where}, {len(self.futures)} calls{', shut down' if self.closed else ''}>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a worker call ``fn(*args, **kwargs)``, in a copy of the caller's context.

        Parks: as ``Pool.submit``. Raises: TypeError, RuntimeError after ``shutdown``.
        """
        if self.closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()
        future._done_callbacks.append(self.futures.discard)  # add_done_callback() would take a lock for it
        self.futures.add(future)
        try:
            if self.pool is None:
                scheduler = scheduler_here()
                future._waiters = LocalWaiters(scheduler)
                self.staff_on(scheduler).submit(future, fn, args, kwargs)
            else:
                self.pool.staff.submit(future, fn, args, kwargs)
        except BaseException:
            self.futures.discard(future)
            raise
        return future

    def staff_on(self, scheduler: Scheduler) -> Staff:
        staff = self.staffs.get(scheduler)
        if staff is None:
            self.staffs = {each: staff for each, staff in self.staffs.items() if each.ident}
            staff = self.staffs[scheduler] = Staff([scheduler], self.dhagas)
        return staff

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; ``cancel_futures``: those that have not begun are not made.

        Parks: if ``wait``, until the calls have ended. Raises: ParkError, where it cannot wait.
        """
        self.closed = True
        if cancel_futures:
            for future in list(self.futures):
                future.withdraw()
        for staff in list(self.staffs.values()):
            staff.close()
        if wait:
            for future in list(self.futures):
                with contextlib.suppress(CancelledError):
                    future.exception()
            with contextlib.suppress(ParkError):  # a coroutine leaves idle workers to end by themselves
                self.see_off_workers()

    def see_off_workers(self) -> None:
        staff = self.staffs.get(getattr(this_waiter(), "scheduler", None))  # type: ignore[arg-type]
        if staff is not None:
            staff.join(None)
