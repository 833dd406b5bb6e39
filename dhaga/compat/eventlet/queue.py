"""``eventlet.queue``: resizable queues. A queue of size 0 passes each item directly from its putter to a getter.

Unlike gevent's queues, these are not built on ``dhaga.queue``, whose queues cannot be resized, are unlimited with size
0, and do not show their waiters. OS threads never share eventlet's queues, so these queues need not be thread-safe.
"""

from __future__ import annotations

import heapq
from collections import deque
from queue import Empty, Full
from types import GenericAlias
from typing import Any

from ..._kernel.api import current
from ..._kernel.run.handed_over import count_handed_over
from ..._kernel.wait.waiter import NOT_CANCELLABLE, TIMED_OUT
from ..._sync.event import Event

__all__ = ["Empty", "Full", "LifoQueue", "LightQueue", "PriorityQueue", "Queue"]


class Getters(deque[Any]):
    """Waiters for an item, in order of arrival. A cancelled waiter is removed by ``_remove``."""

    __slots__ = ()

    reason = "queue.get"

    def _remove(self, waiter: Any) -> None:
        self.remove(waiter)


class Putters(deque[tuple[Any, Any]]):
    """Waiters for room, each with its item. A cancelled waiter is removed by ``_remove``."""

    __slots__ = ()

    def _remove(self, waiter: Any) -> bool:
        # Compare waiters by identity; deque.remove() would also compare the items.
        for index, each in enumerate(self):
            if each[0] is waiter:
                del self[index]
                return True
        return False


class LightQueue:
    """A FIFO queue without ``join``. Source: ``eventlet.queue.LightQueue``. Parks: ``queue.get``, ``queue.put``.

    If ``maxsize`` is None or below 0, the size is not limited. If ``maxsize`` is 0, ``put`` waits until a getter
    receives the item. Subclasses may define ``_init``, ``_put`` and ``_get``.
    """

    queue: Any

    def __init__(self, maxsize: int | None = None) -> None:
        self.maxsize = None if maxsize is None or maxsize < 0 else maxsize
        self.getters: Getters = Getters()
        self.putters: Putters = Putters()
        self._handed_over = False  # whether an item may be on its way to a getter that has not run yet
        self._init(maxsize)

    __class_getitem__: Any = classmethod(GenericAlias)

    def _init(self, maxsize: int | None) -> None:
        self.queue = deque()

    def _get(self) -> Any:
        return self.queue.popleft()

    def _put(self, item: Any) -> None:
        self.queue.append(item)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} {self._format()}>"

    def __str__(self) -> str:
        return f"<{type(self).__name__} {self._format()}>"

    def _format(self) -> str:
        items = f" queue={self.queue!r}" if self.queue else ""
        getters = f" getters[{len(self.getters)}]" if self.getters else ""
        return f"maxsize={self.maxsize!r}{items}{getters}{f' putters[{len(self.putters)}]' if self.putters else ''}"

    def qsize(self) -> int:
        """Return the number of items. Items that were passed to getters count until these getters run."""
        if self._handed_over:
            handed_over = count_handed_over(self.getters)
            self._handed_over = handed_over > 0
            return len(self.queue) + handed_over
        return len(self.queue)

    def resize(self, size: int | None) -> None:
        """Change the size limit. If there is room, items of waiting putters enter the queue."""
        self.maxsize = size
        self._admit_putters()

    def putting(self) -> int:
        """Return the number of putters that wait for room."""
        return len(self.putters)

    def getting(self) -> int:
        """Return the number of getters that wait for an item."""
        return len(self.getters)

    def empty(self) -> bool:
        """Return whether the queue has no item."""
        return not self.qsize()

    def full(self) -> bool:
        """Return whether the queue has no room."""
        return self.maxsize is not None and len(self.queue) >= self.maxsize

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Put an item. Parks: if ``block``, while the queue is full.

        Raises: Full after ``timeout`` seconds; if not ``block``, at once.
        """
        if self.getters:
            self._hand_over(item, block)
        elif self.maxsize is None or len(self.queue) < self.maxsize:
            self._put(item)
        elif not block:
            raise Full
        else:
            me = current()
            me.prepare_park("queue.put", self.putters)
            self.putters.append((me, item))
            if me.park_within(timeout) is TIMED_OUT:
                raise Full

    def _hand_over(self, item: Any, block: bool) -> None:
        """Pass an item to the first getter. In a queue of size 0, that getter runs before ``put`` returns."""
        me = current() if block and self.maxsize == 0 else None
        if me is not None:
            me.prepare_park("queue.put", NOT_CANCELLABLE)
        self._put(item)
        self.getters.popleft().wake_parked(self._get())
        self._handed_over = True
        if me is not None:
            me.wake_parked()
            me.park_until_woken()

    def put_nowait(self, item: Any) -> None:
        """Put an item. Raises: Full if the queue is full."""
        self.put(item, False)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return an item. Parks: if ``block``, while the queue is empty.

        Raises: Empty after ``timeout`` seconds; if not ``block``, at once.
        """
        if self.putters and not self.queue:
            self._admit_putter()
        if self.queue:
            item = self._get()
            if self.putters:
                self._admit_putters()
            return item
        if not block:
            self._handed_over = False  # after Empty, ``qsize`` no longer counts items passed to getters
            raise Empty
        me = current()
        me.prepare_park(self.getters.reason, self.getters)
        self.getters.append(me)
        found = me.park_within(timeout)
        if found is TIMED_OUT:
            raise Empty
        return found

    def get_nowait(self) -> Any:
        """Remove and return an item. Raises: Empty if the queue is empty."""
        return self.get(False)

    def _admit_putter(self) -> None:
        putter, item = self.putters.popleft()
        self._put(item)
        putter.wake_parked()

    def _admit_putters(self) -> None:
        while self.putters and (self.maxsize is None or len(self.queue) < self.maxsize):
            self._admit_putter()


class Queue(LightQueue):
    """A LightQueue that counts its unfinished items. Source: ``eventlet.queue.Queue``."""

    def __init__(self, maxsize: int | None = None) -> None:
        super().__init__(maxsize)
        self.unfinished_tasks: int = 0
        self._all_done: Event | None = None  # created by join()

    def _format(self) -> str:
        return super()._format() + (f" tasks={self.unfinished_tasks}" if self.unfinished_tasks else "")

    def _put(self, item: Any) -> None:
        self.queue.append(item)
        self.unfinished_tasks += 1

    def _put_bookkeeping(self) -> None:
        self.unfinished_tasks += 1

    def task_done(self) -> None:
        """Mark an item as done. Raises: ValueError if called more often than items were put."""
        if self.unfinished_tasks <= 0:
            raise ValueError("task_done() called too many times")
        self.unfinished_tasks -= 1
        if not self.unfinished_tasks and self._all_done is not None:
            done, self._all_done = self._all_done, None
            done.set()

    def join(self) -> None:
        """Wait until all items are done. Parks: until then."""
        while self.unfinished_tasks:
            if self._all_done is None:
                self._all_done = Event()
            self._all_done.wait()


class PriorityQueue(Queue):
    """A Queue that returns the lowest item first."""

    def _init(self, maxsize: int | None) -> None:
        self.queue: Any = []

    def _put(self, item: Any) -> None:
        heapq.heappush(self.queue, item)
        self._put_bookkeeping()

    def _get(self) -> Any:
        return heapq.heappop(self.queue)


class LifoQueue(Queue):
    """A Queue that returns the newest item first."""

    def _init(self, maxsize: int | None) -> None:
        self.queue: Any = []

    def _get(self) -> Any:
        return self.queue.pop()
