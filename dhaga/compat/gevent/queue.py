"""``gevent.queue``: the standard queues with ``peek``, initial items and iteration, and the unbuffered Channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar

from ... import queue as ours
from ..._kernel.faces.arguments import check_timeout
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
"""The methods in Python. In a subclass, the compiled methods only forward to these; direct calls save this step."""


class Items(Generic[T]):
    """Mixin that iterates over a queue. The iteration ends at an item that is the class StopIteration."""

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
    """A FIFO queue, whose size is not limited if ``maxsize`` is None or below 1. Source: ``gevent.queue.Queue``."""

    def __init__(
        self, maxsize: int | None = None, items: Iterable[T] = (), unfinished_tasks: int | None = None
    ) -> None:
        self._peekers: list[Waiter] = []
        super().__init__(maxsize or 0)
        for item in items:
            self._put(item)
        self.unfinished_tasks: int = unfinished_tasks or len(self.queue)
        if maxsize is None:
            self.maxsize = 0

    def put(self, item: T, block: bool = True, timeout: Any = None) -> None:
        """Put an item into the queue. Parks: while the queue is full. Raises: Full after ``timeout`` seconds."""
        if timeout is not None:
            if isinstance(timeout, Timeout):
                timeout.within(put, self, item, block)
                return
            if block and timeout < 0:  # as in gevent: ValueError if there is room, else no wait
                if not self.full():
                    check_timeout(timeout)
                timeout = 0
        put(self, item, block, timeout)

    def get(self, block: bool = True, timeout: Any = None) -> T:
        """Remove and return the next item. Parks: while the queue is empty. Raises: Empty after ``timeout`` seconds."""
        if timeout is not None:
            if isinstance(timeout, Timeout):
                return timeout.within(get, self, block)  # type: ignore[no-any-return]
            if block and timeout < 0 and self.qsize():  # as in gevent: ValueError only if there is no item
                timeout = 0
        return get(self, block, timeout)  # type: ignore[no-any-return]

    def join(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Wait until ``task_done`` was called for each item. Parks: until then. Returns: False after the timeout."""
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
        """Return the next item, but keep it. Parks: while the queue is empty. Raises: Empty after ``timeout`` s."""
        if isinstance(timeout, Timeout):
            return timeout.within(self.peek, block)
        self.mutex.acquire()
        try:
            if self._size_():
                return self._peek()
            if self.is_shutdown:
                raise ShutDown
            if block and timeout is not None:
                check_timeout(timeout)
            if not block or timeout == 0:
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
        """Return the next item without removing it. Raises: Empty if the queue is empty."""
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
        if self._peekers:  # no item may go straight to a peeker, which waits among the getters but takes no item
            self._hands_over_ = False

    def _deliver_next_(self, getter: Waiter, take: Callable[[], T]) -> None:
        """Pass an item to a getter, or show an item to a peeker without removing it."""
        super()._deliver_next_(getter, self._peek if getter in self._peekers else take)


JoinableQueue = Queue


class SimpleQueue(Queue[T]):
    """A Queue for programs that do not count tasks."""


class UnboundQueue(Queue[T]):
    """A Queue without a size limit."""

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
    """A queue without a buffer: ``put`` waits until ``get`` receives its item. Source: ``gevent.queue.Channel``."""

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
        """The number of waiting putters minus the number of waiting getters."""
        return len(self._offers) - self._waiting

    def qsize(self) -> int:
        return 0

    def empty(self) -> bool:
        return True

    def full(self) -> bool:
        return True

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Pass an item to a getter. Parks: until a getter receives it. Raises: Full after ``timeout`` seconds."""
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
                return  # a waiting getter will receive the item
            try:
                taken = self._changed.wait_for(lambda: not offer, timeout)
            except BaseException:
                self._withdraw(offer)
                raise
            if not taken:
                self._withdraw(offer)
                raise Full

    def _withdraw(self, offer: list[Any]) -> None:
        self._offers[:] = [each for each in self._offers if each is not offer]  # another offer may be equal

    def put_nowait(self, item: T) -> None:
        """Pass an item to a waiting getter. Raises: Full if no getter waits."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Receive the item of a putter. Parks: until a putter comes. Raises: Empty after ``timeout`` seconds."""
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
        """Receive the item of a waiting putter. Raises: Empty if no putter waits."""
        return self.get(False)
