"""``gevent.queue``: the standard queues with ``peek``, items to begin with and iteration, and Channel."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar

from ... import queue as ours
from ..._kernel.compiled import python_twin
from ..._sync.condition import Condition
from ...queue import Empty, Full, ShutDown
from .timeout import Timeout

__all__ = [
    "Channel",
    "Empty",
    "Full",
    "JoinableQueue",
    "LifoQueue",
    "PriorityQueue",
    "Queue",
    "ShutDown",
    "SimpleQueue",
    "UnboundQueue",
]

T = TypeVar("T")

put, get = python_twin(ours.Queue.put), python_twin(ours.Queue.get)
"""Looked up once, as each item takes them. The compiled ones, which know no subclass, would call these."""


class Queue(ours.Queue[T]):
    """A FIFO queue. Source: ``gevent.queue.Queue``: ``maxsize`` None or below 1 has no bound.

    Iteration takes items until StopIteration, the class, comes out.
    """

    def __init__(
        self, maxsize: int | None = None, items: Iterable[T] = (), unfinished_tasks: int | None = None
    ) -> None:
        super().__init__(maxsize or 0)
        for item in items:
            self._put(item)
        self.unfinished_tasks = len(self.queue) if unfinished_tasks is None else unfinished_tasks
        if maxsize is None:
            self.maxsize = 0

    def put(self, item: T, block: bool = True, timeout: Any = None) -> None:
        """Put an item in. Parks: while there is no room. Raises: Full after ``timeout`` seconds."""
        if timeout is not None and isinstance(timeout, Timeout):
            timeout.within(put, self, item, block)
        else:
            put(self, item, block, timeout)

    def get(self, block: bool = True, timeout: Any = None) -> T:
        """Take the next item. Parks: while there is none. Raises: Empty after ``timeout`` seconds."""
        if timeout is not None and isinstance(timeout, Timeout):
            return timeout.within(get, self, block)  # type: ignore[no-any-return]
        return get(self, block, timeout)  # type: ignore[no-any-return]

    def join(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Wait until ``task_done`` was called for each item. Parks: until then. Returns: False after ``timeout`` s."""
        timer = Timeout.start_new(timeout)
        try:
            super().join()
        except Timeout as error:
            if error is not timer:
                raise
            return self.unfinished_tasks == 0
        finally:
            timer.cancel()
        return True

    @classmethod
    def _made_of(cls, items: Any, maxsize: int) -> Any:
        return cls(maxsize, items)

    def copy(self) -> Self:
        """Return a new queue with the same items."""
        return self._made_of(list(self.queue), self.maxsize)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.qsize()

    def __bool__(self) -> bool:
        return True

    def peek(self, block: bool = True, timeout: float | None = None) -> T:
        """Return the next item and leave it there. Parks: while there is none. Raises: Empty after ``timeout`` s."""
        while True:
            if self.qsize():
                return self._peek()
            item = self.get(block, timeout)
            self._put_back(item)

    def peek_nowait(self) -> T:
        """Return the next item and leave it there. Raises: Empty."""
        return self.peek(False)

    def _peek(self) -> T:
        return self.queue[0]  # type: ignore[no-any-return]

    def _put_back(self, item: T) -> None:
        """Let an item be the next one again, for whichever getter comes first."""
        with self.mutex:
            self._insert_first(item)
            self._serve_getters()

    def _insert_first(self, item: T) -> None:
        self.queue.appendleft(item)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self.get()
        if item is StopIteration:
            raise StopIteration
        return item

    next = __next__


JoinableQueue = Queue


class SimpleQueue(Queue[T]):
    """A Queue whose tasks are not counted by those who use it."""


class UnboundQueue(Queue[T]):
    """A Queue without a bound."""

    def __init__(self, maxsize: int | None = None, items: Iterable[T] = ()) -> None:
        if maxsize is not None:
            raise ValueError("UnboundQueue has no maxsize")
        super().__init__(None, items)


class LifoQueue(Queue[T], ours.LifoQueue[T]):
    """A Queue that returns the newest item first."""

    _init = ours.LifoQueue._init
    _put = ours.LifoQueue._put
    _get = ours.LifoQueue._get

    def _peek(self) -> T:
        return self.queue[-1]  # type: ignore[no-any-return]

    def _insert_first(self, item: T) -> None:
        self.queue.append(item)


class PriorityQueue(Queue[T], ours.PriorityQueue[T]):
    """A Queue that returns the lowest item first."""

    _init = ours.PriorityQueue._init
    _put = ours.PriorityQueue._put
    _get = ours.PriorityQueue._get

    def _insert_first(self, item: T) -> None:
        heapq.heappush(self.queue, item)


class Channel(Generic[T]):
    """A queue without room: a ``put`` waits until a ``get`` takes its item. Source: ``gevent.queue.Channel``."""

    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, maxsize: int = 1) -> None:
        if maxsize != 1:
            raise ValueError("Channel does not take a maxsize")
        self._changed = Condition()
        self._offers: list[list[Any]] = []
        self._waiting = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} putters[{len(self._offers)}] getters[{self._waiting}]>"

    @property
    def balance(self) -> int:
        """How many more wait to put than to get."""
        return len(self._offers) - self._waiting

    def qsize(self) -> int:
        return 0

    def empty(self) -> bool:
        return True

    def full(self) -> bool:
        return True

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Hand an item over. Parks: until it is taken. Raises: Full after ``timeout`` seconds."""
        if isinstance(timeout, Timeout):
            timeout.within(self.put, item, block)
            return
        with self._changed:
            if not block and self._waiting <= len(self._offers):
                raise Full
            offer = [item]
            self._offers.append(offer)
            self._changed.notify_all()
            if not block:
                return  # a getter waits for it
            try:
                taken = self._changed.wait_for(lambda: not offer, timeout)
            except BaseException:
                self._withdraw(offer)
                raise
            if not taken:
                self._withdraw(offer)
                raise Full

    def _withdraw(self, offer: list[Any]) -> None:
        if offer in self._offers:
            self._offers.remove(offer)

    def put_nowait(self, item: T) -> None:
        """Hand an item to a getter that waits. Raises: Full if none does."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the item of a putter. Parks: until there is one. Raises: Empty after ``timeout`` seconds."""
        if isinstance(timeout, Timeout):
            return timeout.within(self.get, block)
        with self._changed:
            self._waiting += 1
            try:
                if not self._changed.wait_for(lambda: self._offers, timeout if block else 0):
                    raise Empty
            finally:
                self._waiting -= 1
            item: T = self._offers.pop(0).pop()
            self._changed.notify_all()
            return item

    def get_nowait(self) -> T:
        """Take the item of a putter that waits. Raises: Empty if none does."""
        return self.get(False)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self.get()
        if item is StopIteration:
            raise StopIteration
        return item

    next = __next__
