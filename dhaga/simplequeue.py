"""The standard ``SimpleQueue`` on dhagas, which ``queue.py`` offers: without bounds, and without a lock.

For the lines marked ``one step`` see ``locks.py``.
"""

from __future__ import annotations

import types
from collections import deque
from queue import Empty
from typing import Any, Generic, TypeVar

from .kernel.waiting import WaitQueue, this_waiter

T = TypeVar("T")
NOTHING: Any = object()


def check_timeout(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")


class SimpleQueue(Generic[T]):
    """An unbounded FIFO queue. Source: ``queue.SimpleQueue``: signal handlers and finalizers may call ``put``.

    It needs no lock: while anybody waits there is no item, as both come in by a step that looks at the other.
    """

    __slots__ = ("__weakref__", "getters", "items")

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.getters = WaitQueue(self, "queue.get")

    __class_getitem__ = classmethod(types.GenericAlias)  # type: ignore[var-annotated]

    def __repr__(self) -> str:
        return f"<SimpleQueue of {len(self.items)}, {len(self.getters)} parked in get>"

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Parks: never; ``block`` and ``timeout`` are there for the contract alone."""
        while True:
            if not self.getters: self.items.append(item); return  # one step  # fmt: skip  # noqa: E701, E702
            try:
                getter = self.getters.popleft()
            except IndexError:  # the timeout of the last one, in another OS thread
                continue
            if getter.unpark(item):
                return

    def put_nowait(self, item: T) -> None:
        """Add an item."""
        self.put(item)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest item. Parks: while there is none (``queue.get``). Raises: Empty after ``timeout`` seconds."""
        if timeout is not None and block:
            check_timeout(timeout)
        item: T = NOTHING
        while item is NOTHING:
            if self.items:
                try:
                    return self.items.popleft()
                except IndexError:  # another thread was faster
                    pass
            if not block or timeout == 0:
                raise Empty
            item = self.wait_for_item(timeout)
        return item

    def wait_for_item(self, timeout: float | None) -> Any:
        """Park until an item is handed over; NOTHING if one has come in before."""
        me = this_waiter()
        me.prepare("queue.get", self.getters)
        if not self.items: self.getters.append(me)  # one step  # fmt: skip  # noqa: E701
        else:
            me.unpark(NOTHING)
        try:
            return me.park(timeout)
        except TimeoutError:
            raise Empty from None

    def get_nowait(self) -> T:
        """Take the oldest item. Raises: Empty."""
        return self.get(False)

    def qsize(self) -> int:
        """Return how many items there are; another thread may change that any time."""
        return len(self.items)

    def empty(self) -> bool:
        """Tell whether there is no item now."""
        return not self.items
