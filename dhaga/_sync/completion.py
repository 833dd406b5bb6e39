"""``wait`` and ``as_completed``: for several dhagas and futures at once.

Each waitable gets a joiner. When the waitable ends, the joiner puts it into the caller's queue: O(1) a completion. A
joiner has a ticket, as in ``Dhaga.join``: a finished wait withdraws it, in O(1) amortised. A standard Future has no
joiners: it gets the queue itself, which has the interface of the standard's waiters.

While a caller waits here for a dhaga, the caller gets its error, as with ``Dhaga.result``. If no caller reads the error
of a returned dhaga, it is reported when the dhaga is freed (``UnseenError``), so it is never lost.
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
"""The states of a Future whose waiters have been notified, or never will be."""


class DoneAndNotDone(NamedTuple, Generic[W]):
    """The result of ``wait``: two sets."""

    done: set[W]
    not_done: set[W]


class CompletionQueue(SimpleQueue[Any]):
    """Receives each waitable that ends; has the interface of the standard's waiters."""

    __slots__ = ()

    add_result = add_exception = add_cancelled = SimpleQueue.put


class CompletionJoiner:
    """Joiner for a dhaga or a Future of ours: its wake puts that into the queue of the caller."""

    __slots__ = ("queue", "ticket", "waitable")

    def __init__(self, waitable: Any, queue: CompletionQueue) -> None:
        self.waitable = waitable
        self.queue = queue
        self.ticket: list[Any] = [self]
        waitable._joiners.append(self.ticket)

    def deliver_wake(self, value: object = None) -> None:
        self.queue.put(self.waitable)

    def leave(self) -> None:
        """Withdraw the ticket, unless it was used."""
        if claim(self.ticket):
            self.waitable._remove(None)


class Completions:
    """The waitables of one caller. Each has not ended, is in the queue, or was returned."""

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
        """Return a waitable that has ended. Parks: until then. Raises: Empty."""
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
    """Yield the completions of several dhagas and futures, and remove the joiners at the end."""
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
        raise TypeError(f"several dhagas or futures are needed, a list of them, not one: {waitables!r}")
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
    """Return a function that returns the seconds left until the timeout, at least 0, or None without one."""
    if timeout is None:
        return lambda: None
    check_seconds(timeout)
    clock = clock_here()
    deadline = clock() + timeout
    return lambda: max(0.0, deadline - clock())


# The last overload of each is for a mixture, for which type checkers would infer Iterable[object].
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
    """Wait for some of several dhagas and futures, of ``dhaga.futures`` or ``concurrent.futures``.

    ``return_when``: "ALL_COMPLETED", "FIRST_COMPLETED" or "FIRST_EXCEPTION", an error that is no cancel.
    Parks: until enough have ended (``queue.get``), at most ``timeout`` seconds. From: a dhaga, main code, any OS
    thread. Returns: ``(done, not_done)``, two sets; an error is raised by ``result()``. Raises: ValueError, TypeError.
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
    """Return whether a waitable ended with an error; a cancel does not count as one."""
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
    """Yield several dhagas and futures, of ``dhaga.futures`` or ``concurrent.futures``, as they end.

    Parks: until the next one has ended (``queue.get``). From: a dhaga, main code, any OS thread. Raises: TimeoutError
    ``timeout`` seconds after this call, TypeError. Source: ``concurrent.futures.as_completed``.

    >>> import dhaga
    >>> sleepers = [dhaga.spawn(dhaga.sleep, seconds, name=f"{seconds} s") for seconds in (0.02, 0, 0.01)]
    >>> [ended.name for ended in dhaga.as_completed(sleepers)]
    ['0 s', '0.01 s', '0.02 s']
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
            del one  # it may be the last reference to a large result
