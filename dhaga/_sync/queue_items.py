"""The items of a Queue: the methods that store, remove and count items, and shortcuts that bypass these methods.

The waits of getters and putters are in ``dhaga/queue.py``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._kernel.run.call_outs import calls_out
from .._kernel.run.handed_over import count_handed_over
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import Waiter
from .overridable import overridable

T = TypeVar("T")


class QueueItems(Generic[T]):
    """Base class of Queue: the queue's items and the methods that access them."""

    __slots__ = ("_handed_over_", "_hands_over_", "_items_", "_stock_", "_watchers_")

    _replaced_: Mapping[str, Any] = {}  # the methods that a program has replaced on this queue

    if TYPE_CHECKING:
        maxsize: int
        _getters_: WaitQueue

    _handed_over_: bool
    _watchers_: set[Waiter] | None

    # ---- the methods that subclasses override

    @overridable
    def _qsize(self) -> int:
        return len(self.queue)

    @overridable
    def _put(self, item: T) -> None:
        self.queue.append(item)

    @overridable
    def _get(self) -> T:
        return self.queue.popleft()  # type: ignore[no-any-return]

    # ---- their shortcuts

    def _set_items_(self, items: Any) -> None:
        self._items_ = items
        if hasattr(self, "_stock_"):  # false in __init__(), which binds the shortcuts at its end
            self._bind_shortcuts_()

    if TYPE_CHECKING:
        queue: Any
    else:
        queue = property(attrgetter("_items_"), _set_items_)

    def _bind_shortcuts_(self) -> None:
        """Bind the methods of the deque or list directly, unless a subclass or program has replaced a method above, or
        a program has used ``not_empty`` or ``not_full``.

        Sets ``_stock_`` to the items if a getter may remove an item without the mutex, else to None. Sets
        ``_hands_over_`` to whether an item may go straight to a getter, without ``_put`` and ``_get``.
        """
        # Do not read __dict__: the read would create the dict, which slows down each attribute access. Two dhagas that
        # pass items to each other would take 34 % longer.
        items = getattr(self, "queue", None)
        bound = None
        if not any(self._replaced_.values()) and getattr(self, "_watchers_", None) is None:
            bound = shortcuts(type(self), items)
        self._hands_over_ = bound is not None
        self._stock_: Any = None if bound is None or type(self)._get is get_lowest else items
        if bound is None:
            for name in ("_take_", "_store_", "_size_"):
                with suppress(AttributeError):  # not bound
                    delattr(self, name)
        else:
            self._take_, self._store_, self._size_ = bound  # type: ignore[method-assign]

    def _take_(self) -> T:
        return self._get()

    def _store_(self, item: T) -> None:
        self._put(item)

    def _size_(self) -> int:
        return self._qsize()

    # ---- the sizes

    @calls_out
    def qsize(self) -> int:
        """Return the number of items. Items that were handed to getters count until these getters run.

        Another OS thread may change the number at any time.
        """
        if overlong:
            found_nothing()
        return self._size_() if not self._handed_over_ else self._size_in_all_()

    def _size_in_all_(self) -> int:
        """Return the number of items, including handed-over items, but at most ``maxsize``."""
        size = self._size_()
        # Clear the flag before the count: a hand-over by another OS thread during the count sets the flag again.
        self._handed_over_ = False
        handed_over = count_handed_over(self._getters_)
        if not handed_over:
            return size
        self._handed_over_ = True
        size += handed_over
        return size if self.maxsize <= 0 else min(size, self.maxsize)

    @calls_out
    def empty(self) -> bool:
        """Return whether the queue is empty now, by the count of ``qsize``."""
        if overlong:
            found_nothing()
        return not self._size_() and not (self._handed_over_ and self._size_in_all_())

    @calls_out
    def full(self) -> bool:
        """Return whether the queue is full now, by the count of ``qsize``. ``put`` does not count handed-over items."""
        if overlong:
            found_nothing()
        if self.maxsize <= 0:
            return False
        return self._size_() >= self.maxsize or (self._handed_over_ and self._size_in_all_() >= self.maxsize)

    def _take_back_from_(self, getter: Waiter) -> None:
        """In a forked child, put back the item of a getter that never runs in the child."""
        if getter.wait_target is not self._getters_:  # a putter, or a caller of join()
            return
        # When the item was handed over, the queue was empty, so all present items are newer.
        if self._stock_ is not None:
            self._stock_.insert(0, getter._value)
        else:
            self._store_(getter._value)


# ---- how the subclasses store and take items


def put_newest(self: Any, item: Any) -> None:
    self.queue.append(item)


def get_newest(self: Any) -> Any:
    return self.queue.pop()


def put_sorted(self: Any, item: Any) -> None:
    heapq.heappush(self.queue, item)


def get_lowest(self: Any) -> Any:
    return heapq.heappop(self.queue)


FIFO: tuple[Any, Any, Any] = QueueItems._qsize, QueueItems._put, QueueItems._get
LIFO: tuple[Any, Any, Any] = QueueItems._qsize, put_newest, get_newest
PRIORITY: tuple[Any, Any, Any] = QueueItems._qsize, put_sorted, get_lowest


def shortcuts(kind: type[QueueItems[Any]], items: Any) -> tuple[Any, Any, Any] | None:
    """Return functions that remove, store and count the items of a queue; None if the class has its own methods, or if
    the items are in another kind of container.
    """
    own = kind._qsize, kind._put, kind._get
    if own == FIFO and type(items) is deque:
        return items.popleft, items.append, items.__len__
    if own == LIFO and type(items) is list:
        return items.pop, items.append, items.__len__
    if own == PRIORITY and type(items) is list:
        return partial(heapq.heappop, items), partial(heapq.heappush, items), items.__len__
    return None
