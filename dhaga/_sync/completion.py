"""``wait`` and ``as_completed``: waiting for several dhagas and futures at once.

Each waitable (dhaga or future) gets a joiner, an object that is notified when the waitable ends. The joiner then puts
the waitable into the caller's queue, so a completion costs O(1). A joiner is registered by a ticket (a list that holds
the joiner until the notification), as in ``Dhaga.join``. At the end of the wait, the ticket is withdrawn in amortized
O(1). A standard Future gets the queue itself instead of a joiner, since the queue has the interface of the standard
library's waiters.

If a dhaga fails while a caller of these functions waits for the dhaga, the error is not reported: the caller can read
it, as with ``Dhaga.result``. If no caller reads the error of a returned dhaga, the error is reported when the dhaga is
freed (``UnseenError``).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION
from queue import Empty
from typing import Any, Generic, NamedTuple, TypeVar, overload

from greenlet import GreenletExit

from .._kernel.context_manager import contextmanager
from .._kernel.errors import Cancelled
from .._kernel.faces.arguments import check_seconds
from .._kernel.run.microthread import Dhaga
from .._kernel.wait.current import clock_here
from .._kernel.wait.waiter import claim
from .simple_queue import SimpleQueue

Waitable = Dhaga[Any] | concurrent.futures.Future[Any]
W = TypeVar("W", bound=Waitable)
D = TypeVar("D", bound=Dhaga[Any])
F = TypeVar("F", bound=concurrent.futures.Future[Any])

ENDED = ("CANCELLED_AND_NOTIFIED", "FINISHED")
"""The states in which a Future has ended and notifies no more waiters."""


class DoneAndNotDone(NamedTuple, Generic[W]):
    """The result of ``wait``: the set of ended waitables, and the set of waitables that have not ended."""

    done: set[W]
    not_done: set[W]


class CompletionQueue(SimpleQueue[Any]):
    """A queue that receives each ended waitable. The queue has the interface of a standard Future's waiters."""

    __slots__ = ()

    add_result = add_exception = add_cancelled = SimpleQueue.put


class CompletionJoiner:
    """A joiner for a dhaga or a Future of ``dhaga.futures``: its wake puts the waitable into the caller's queue."""

    __slots__ = ("queue", "ticket", "waitable")

    def __init__(self, waitable: Any, queue: CompletionQueue) -> None:
        self.waitable = waitable
        self.queue = queue
        self.ticket: list[Any] = [self]
        waitable._joiners.append(self.ticket)

    def deliver_wake(self, value: object = None) -> None:
        self.queue.put(self.waitable)

    def leave(self) -> None:
        """Withdraw the ticket, unless the waitable has ended."""
        if claim(self.ticket):
            self.waitable._remove(None)


class Completions:
    """The waitables of one caller. Each waitable has not ended yet, or is in the queue, or was returned."""

    def __init__(self) -> None:
        self.queue = CompletionQueue()
        self.joiners: dict[Any, CompletionJoiner] = {}
        self.standard_futures: dict[Any, None] = {}
        self.withheld: dict[Dhaga[Any], None] = {}

    def add(self, waitable: Any) -> None:
        if isinstance(waitable, Dhaga):
            self.add_dhaga(waitable)
        elif hasattr(waitable, "_joiners"):
            self.joiners[waitable] = CompletionJoiner(waitable, self.queue)
            # Check again: the waitable may have ended in another OS thread just before the append.
            if waitable.done():
                waitable._wake_joiners()
        else:
            self.add_standard(waitable)

    def add_dhaga(self, dhaga: Dhaga[Any]) -> None:
        if dhaga.has_ended:
            self.queue.put(dhaga)
            return
        dhaga.result_waiters += 1  # atomic
        self.withheld[dhaga] = None
        self.joiners[dhaga] = CompletionJoiner(dhaga, self.queue)
        if dhaga.has_ended:
            dhaga.release_joiners()

    def add_standard(self, future: Any) -> None:
        with future._condition:
            if future._state in ENDED:
                self.queue.put(future)
            else:
                future._waiters.append(self.queue)
                self.standard_futures[future] = None

    def get(self, timeout: float | None) -> Any:
        """Return the next ended waitable. Parks: until one has ended. Raises: Empty after ``timeout`` seconds."""
        waitable = self.queue.get(timeout=timeout)
        self.joiners.pop(waitable, None)
        if waitable in self.withheld:
            del self.withheld[waitable]
            waitable.hand_over_result()
        return waitable

    def leave(self) -> None:
        """Remove the joiners of waitables that were not returned."""
        for joiner in self.joiners.values():
            joiner.leave()
        for dhaga in self.withheld:
            dhaga.leave_result()
        for future in self.standard_futures:
            with future._condition:
                if self.queue in future._waiters:
                    future._waiters.remove(self.queue)


@contextmanager
def completions_of(waitables: Iterable[Any]) -> Iterator[Completions]:
    """Yield the Completions of several dhagas and futures to a ``with`` block. Remove the joiners after the block."""
    completions = Completions()
    try:
        for waitable in waitables:
            completions.add(waitable)
        yield completions
    finally:
        completions.leave()


def check_waitables(waitables: Iterable[Any]) -> set[Any]:
    """Return the waitables as a set. Raises: TypeError."""
    if isinstance(waitables, (Dhaga, concurrent.futures.Future)):
        raise TypeError(f"a list of dhagas or futures is needed, not a single one: {waitables!r}")
    found = set(waitables)
    for each in found:
        if asyncio.isfuture(each) or asyncio.iscoroutine(each):
            raise TypeError(f"this waits for dhagas and futures of calls, not for {each!r}: await_(asyncio.wait(...))")
        if not isinstance(each, (Dhaga, concurrent.futures.Future)):
            raise TypeError(
                f"this waits for dhagas and for futures of concurrent.futures or dhaga.futures, not for {each!r}"
            )
    return found


def time_left(timeout: float | None) -> Callable[[], float | None]:
    """Return a function that returns the seconds left until the timeout, at least 0, or None without a timeout."""
    if timeout is None:
        return lambda: None
    check_seconds(timeout)
    clock = clock_here()
    deadline = clock() + timeout
    return lambda: max(0.0, deadline - clock())


# The last overload of each function is for a mixture of dhagas and futures, for which type checkers would infer
# Iterable[object].
@overload
def wait(
    waitables: Iterable[D], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> DoneAndNotDone[D]: ...
@overload
def wait(
    waitables: Iterable[F], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> DoneAndNotDone[F]: ...
@overload
def wait(
    waitables: Iterable[Waitable], timeout: float | None = None, return_when: str = ALL_COMPLETED
) -> DoneAndNotDone[Waitable]: ...
def wait(waitables: Iterable[Any], timeout: float | None = None, return_when: str = ALL_COMPLETED) -> Any:
    """Wait until some or all of several dhagas and futures have ended.

    The futures are of ``dhaga.futures`` or ``concurrent.futures``. ``return_when``: "ALL_COMPLETED", "FIRST_COMPLETED"
    or "FIRST_EXCEPTION". A cancel does not count as an exception.
    Parks: until enough waitables have ended (``queue.get``), at most ``timeout`` seconds. From: a dhaga, main code, any
    OS thread. Returns: ``(done, not_done)``, two sets; ``result()`` of a waitable raises its error. Raises: ValueError,
    TypeError.
    Source: ``concurrent.futures.wait``.

    >>> import dhaga
    >>> quick, slow = dhaga.spawn(int), dhaga.spawn(dhaga.sleep, 0.01)
    >>> done, not_done = dhaga.wait([quick, slow], return_when="FIRST_COMPLETED")
    >>> done == {quick}, dhaga.wait(not_done).done == {slow}
    (True, True)
    """
    if return_when not in (ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION):
        raise ValueError(f"return_when is ALL_COMPLETED, FIRST_COMPLETED or FIRST_EXCEPTION, not {return_when!r}")
    all_of_them, done = check_waitables(waitables), set[Any]()
    left = time_left(timeout)
    with completions_of(all_of_them) as completions:
        enough = False
        while not (enough and completions.queue.empty()) and len(done) < len(all_of_them):
            try:
                one = completions.get(0 if enough else left())
            except Empty:
                break
            done.add(one)
            enough = enough or return_when == FIRST_COMPLETED or (return_when == FIRST_EXCEPTION and has_failed(one))
    return DoneAndNotDone(done, all_of_them - done)


def has_failed(waitable: Any) -> bool:
    """Return whether a waitable ended with an error; a cancel does not count as an error."""
    if isinstance(waitable, Dhaga):
        return waitable._error is not None and not isinstance(waitable._error, (Cancelled, GreenletExit))
    return not waitable.cancelled() and waitable.exception() is not None


@overload
def as_completed(waitables: Iterable[D], timeout: float | None = None) -> Iterator[D]: ...
@overload
def as_completed(waitables: Iterable[F], timeout: float | None = None) -> Iterator[F]: ...
@overload
def as_completed(waitables: Iterable[Waitable], timeout: float | None = None) -> Iterator[Waitable]: ...
def as_completed(waitables: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
    """Yield dhagas and futures, of ``dhaga.futures`` or ``concurrent.futures``, in the order in which they end.

    Parks: until the next one has ended (``queue.get``). From: a dhaga, main code, any OS thread. Raises: TypeError;
    TimeoutError ``timeout`` seconds after this call. Source: ``concurrent.futures.as_completed``.

    >>> import dhaga
    >>> sleepers = [dhaga.spawn(dhaga.sleep, seconds, name=f"{seconds} s") for seconds in (0.2, 0, 0.1)]
    >>> [ended.name for ended in dhaga.as_completed(sleepers)]
    ['0 s', '0.1 s', '0.2 s']
    """
    return ended(check_waitables(waitables), time_left(timeout))


def ended(waitables: set[Any], left: Callable[[], float | None]) -> Iterator[Any]:
    with completions_of(list(waitables)) as completions:
        while waitables:
            try:
                one = completions.get(left())
            except Empty:
                raise TimeoutError(f"{len(waitables)} of the waitables have not ended") from None
            waitables.discard(one)
            yield one
            del one  # this variable may be the last reference to a large result
