"""SimpleQueue, which ``dhaga.queue`` exports: an unbounded FIFO queue without a lock.

A queue never has both items and waiting getters. ``put`` appends the item only if no getter waits, and ``get`` queues
up only if there is no item. Each method checks and appends in one atomic line (see ``lock.py``). So a signal handler or
finalizer may interrupt ``get`` at any bytecode and call ``put``: ``get`` does not miss the item. A getter receives the
item as the value of its wake, so a later caller cannot take the item first. As ``dhaga/queue.py`` explains, ``qsize``
counts the item until the getter runs.
"""

from __future__ import annotations

import types
from collections import deque
from queue import Empty
from typing import Any, Generic, TypeVar

from .._kernel.faces.arguments import check_timeout
from .._kernel.faces.stdlib_face import refuse_copy
from .._kernel.fast.compiled import compiled
from .._kernel.interpreter.guards import Guarded
from .._kernel.run.call_outs import calls_out
from .._kernel.run.handed_over import count_handed_over
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.current import this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter

T = TypeVar("T")

NOTHING: Any = object()
"""A marker for a missing item, since None is a valid item."""


class SimpleQueue(Guarded, Generic[T]):
    """An unbounded FIFO queue. Source: ``queue.SimpleQueue``; signal handlers and finalizers may also call ``put``.

    >>> queue = SimpleQueue()
    >>> queue.put("first"), queue.put("second"), queue.get(), queue.qsize()
    (None, None, 'first', 1)
    """

    __slots__ = ("__weakref__", "_getters_", "_handed_over_", "_items_")

    __getstate__: Any = refuse_copy

    def __init__(self) -> None:
        self._items_: deque[T] = deque()
        self._getters_ = WaitQueue(self, "queue.get")
        self._handed_over_ = False  # whether a woken getter may still have to run

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        return f"<SimpleQueue of {len(self._items_)}, {self._getters_.parked()} parked in get>"

    @compiled
    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Parks: never. From: any thread. ``block`` and ``timeout`` are ignored."""
        while True:
            # Atomic, because a getter that queued up between the check and the append would miss the item.
            if not self._getters_: self._items_.append(item); return  # atomic  # fmt: skip
            try:
                getter = self._getters_.popleft().pop()
            except IndexError:  # the getter has left, or another OS thread took the last ticket
                continue
            getter.deliver_wake(item)
            self._handed_over_ = True  # after the wake, because qsize() searches the woken getters
            return

    def put_nowait(self, item: T) -> None:
        """Add an item without blocking, like ``put``."""
        self.put(item)

    @compiled
    @calls_out
    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove and return the oldest item.

        Parks: while there is no item (``queue.get``). Raises: Empty after ``timeout`` seconds.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        item: T = NOTHING
        # The loop runs again only if getters in other OS threads have taken new items.
        while item is NOTHING:
            if self._items_:
                try:
                    return self._items_.popleft()
                except IndexError:  # another OS thread took the last item
                    pass
            if not block or timeout == 0:
                if overlong:
                    found_nothing()
                self._handed_over_ = False  # this caller found no item, so qsize() no longer counts handed-over items
                raise Empty
            item = self._wait_for_item(timeout)
        return item

    def _wait_for_item(self, timeout: float | None) -> Any:
        """Park until an item is handed over. Returns: the item; NOTHING if the caller can take a new item itself."""
        me = this_waiter()
        # Register as parked before queuing up: a put in another OS thread may pop this getter and wake it at once.
        me.prepare_park("queue.get", self._getters_)
        if not self._items_: self._getters_.append(me.parked)  # atomic  # fmt: skip
        else:
            me.wait_target = None
            me.wake_parked(NOTHING)  # makes the park below return at once
        item = me.park_within(timeout)
        if item is TIMED_OUT:
            raise Empty
        return item

    def _take_back_from_(self, getter: Waiter) -> None:
        """In a forked child, put back the item of a getter that never runs in the child, in front of other items."""
        if getter._value is not NOTHING:
            self._items_.appendleft(getter._value)

    @calls_out
    def get_nowait(self) -> T:
        """Remove and return the oldest item. Raises: Empty."""
        return self.get(False)

    @calls_out
    def qsize(self) -> int:
        """Return the number of items. Items that were handed to getters count until these getters run.

        Another OS thread may change the number at any time.
        """
        if overlong:
            found_nothing()
        return len(self._items_) if not self._handed_over_ else self._size_in_all_()

    def _size_in_all_(self) -> int:
        """Return the number of items, including handed-over items."""
        size = len(self._items_)
        # Clear the flag before the count: a hand-over by another OS thread during the count sets the flag again.
        self._handed_over_ = False
        handed_over = count_handed_over(self._getters_)
        if handed_over:
            self._handed_over_ = True
        return size + handed_over

    @calls_out
    def empty(self) -> bool:
        """Return whether the queue is empty now, by the count of ``qsize``."""
        if overlong:
            found_nothing()
        return not self._items_ and not (self._handed_over_ and self._size_in_all_())
