"""``gevent.queue``: the standard queues with ``peek``, initial items and iteration; and Channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar

from ... import queue as ours
from ..._kernel.fast.compiled import python_twin
from ..._kernel.wait.current import this_waiter
from ..._kernel.wait.waiter import Waiter
from ..._sync.condition import Condition
from ...queue import Empty, Full, ShutDown
from .timeout import Timeout

__all__ = [
    "Channel", "Empty", "Full", "JoinableQueue", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue",
    "UnboundQueue",
]  # fmt: skip

T = TypeVar("T")

put: Any = python_twin(ours.Queue.put)
get: Any = python_twin(ours.Queue.get)
"""Looked up once, because each item needs them. The compiled methods do not handle subclasses, and would call these."""


class Items(Generic[T]):
    """Iteration over a queue: ends at an item that is the class StopIteration."""

    get: Callable[..., T]

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self.get()
        if item is StopIteration:
            raise StopIteration
        return item

    next = __next__


class Queue(Items[T], ours.Queue[T]):
    """A FIFO queue. Source: ``gevent.queue.Queue``: ``maxsize`` None or below 1 has no bound."""

    def __init__(
        self, maxsize: int | None = None, items: Iterable[T] = (), unfinished_tasks: int | None = None
    ) -> None:
        self._peekers: list[Waiter] = []
        super().__init__(maxsize or 0)
        for item in items:
            self._put(item)
        self.unfinished_tasks: int = len(self.queue) if unfinished_tasks is None else unfinished_tasks
        if maxsize is None:
            self.maxsize = 0

    def put(self, item: T, block: bool = True, timeout: Any = None) -> None:
        """Put an item in. Parks: while there is no room. Raises: Full after ``timeout`` seconds."""
        if timeout is not None and isinstance(timeout, Timeout):
            timeout.within(put, self, item, block)
        else:
            put(self, item, block, timeout)

    def get(self, block: bool = True, timeout: Any = None) -> T:
        """Remove and return the next item. Parks: while there is none. Raises: Empty after ``timeout`` seconds."""
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
        if isinstance(timeout, Timeout):
            return timeout.within(self.peek, block)
        self.mutex.acquire()
        try:
            if self._size_():
                return self._peek()
            if self.is_shutdown:
                raise ShutDown
            if not block or (timeout is not None and timeout <= 0):
                raise Empty
            me = this_waiter()
            me.prepare_park("queue.peek", self._getters_)
            self._getters_.append(me.parked)
            self._peekers.append(me)
            self._hands_over_ = False
        finally:
            self.mutex._free = True
        try:
            return self._park_for_(me, timeout, Empty)  # type: ignore[no-any-return]
        finally:
            self._leave_peekers(me)

    def peek_nowait(self) -> T:
        """Return the next item and leave it there. Raises: Empty."""
        return self.peek(False)

    def _peek(self) -> T:
        return self.queue[0]  # type: ignore[no-any-return]

    def _leave_peekers(self, me: Waiter) -> None:
        self.mutex.acquire()
        try:
            self._peekers.remove(me)
            self._bind_shortcuts_()
        finally:
            self.mutex._free = True

    def _bind_shortcuts_(self) -> None:
        super()._bind_shortcuts_()
        if self._peekers:  # peekers wait among the getters, and leave the item there
            self._hands_over_ = False

    def _deliver_next_(self, getter: Waiter, take: Callable[[], T]) -> None:
        """Hand an item to a getter, or show it to a peeker."""
        super()._deliver_next_(getter, self._peek if getter in self._peekers else take)


JoinableQueue = Queue


class SimpleQueue(Queue[T]):
    """A Queue for users that do not count tasks."""


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


class PriorityQueue(Queue[T], ours.PriorityQueue[T]):
    """A Queue that returns the lowest item first."""

    _init = ours.PriorityQueue._init
    _put = ours.PriorityQueue._put
    _get = ours.PriorityQueue._get


class Channel(Items[T]):
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
        """Waiting putters minus waiting getters."""
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
        """Pass an item to a waiting getter. Raises: Full without one."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Receive the item of a putter. Parks: until there is one. Raises: Empty after ``timeout`` seconds."""
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
        """Receive the item of a waiting putter. Raises: Empty without one."""
        return self.get(False)
