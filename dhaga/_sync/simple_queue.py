"""SimpleQueue, which ``dhaga.queue`` exports: an unbounded FIFO queue without a lock.

There are never items and waiting getters at once. ``put`` appends the item only if no getter waits, and ``get`` queues
up only if there is no item; each checks and appends in one atomic line (``lock.py`` explains them). So ``get`` notices
a ``put`` from a signal handler or a finalizer at any of its bytecodes. A getter gets the item as the value of its wake:
it does not check again, and a later caller cannot take the item first. As ``dhaga/queue.py`` explains, the item counts
in ``qsize`` until the getter runs.
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
from .._kernel.wait.waiter import TIMED_OUT

T = TypeVar("T")

NOTHING: Any = object()
"""Marks the absence of an item, because None is one."""


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
        self._handed_over_ = False  # whether an item may be on its way to a getter

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        return f"<SimpleQueue of {len(self._items_)}, {self._getters_.parked()} parked in get>"

    @compiled
    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Parks: never. From: any thread. ``block`` and ``timeout`` are ignored, as the standard does."""
        while True:
            # A getter that queues up between the check and the append would wait beside an item.
            if not self._getters_: self._items_.append(item); return  # atomic  # fmt: skip
            try:
                getter = self._getters_.popleft().pop()
            except IndexError:  # the getter has left, or another OS thread took the last one
                continue
            getter.deliver_wake(item)
            self._handed_over_ = True  # after the wake: qsize() looks for the getter among those that were woken
            return

    def put_nowait(self, item: T) -> None:
        """Add an item."""
        self.put(item)

    @compiled
    @calls_out
    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove and return the oldest item.

        Parks: while there is none (``queue.get``). Raises: Empty after ``timeout`` seconds.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        item: T = NOTHING
        # More than one round only if getters in other OS threads take the new items.
        while item is NOTHING:
            if self._items_:
                try:
                    return self._items_.popleft()
                except IndexError:  # another OS thread took the last one
                    pass
            if not block or timeout == 0:
                if overlong:
                    found_nothing()
                self._handed_over_ = False  # the caller sees that the items handed over are gone
                raise Empty
            item = self._wait_for_item(timeout)
        return item

    def _wait_for_item(self, timeout: float | None) -> Any:
        """Park until an item is handed over. Returns: NOTHING if an item was put meanwhile, for the caller to take."""
        me = this_waiter()
        # Parked before it queues up: a put in another OS thread may pop this getter at once,
        # and its wake must count.
        me.prepare_park("queue.get", self._getters_)
        if not self._items_: self._getters_.append(me.parked)  # atomic  # fmt: skip
        else:
            me.wait_target = None
            me.wake_parked(NOTHING)  # the park below returns at once, as after any other wake
        try:
            item = me.park_within(timeout)
        finally:
            me.wait_target = None  # so that the item counts as taken
        if item is TIMED_OUT:
            raise Empty
        return item

    @calls_out
    def get_nowait(self) -> T:
        """Remove and return the oldest item. Raises: Empty."""
        return self.get(False)

    @calls_out
    def qsize(self) -> int:
        """Return the number of items. Items that were handed to getters count until these getters run.

        Another OS thread may change it at any time.
        """
        if overlong:
            found_nothing()
        return len(self._items_) if not self._handed_over_ else self._size_in_all_()

    def _size_in_all_(self) -> int:
        """Return the number of items and of items handed over."""
        size = len(self._items_)
        # In this order: a hand-over by another OS thread meanwhile sets the flag again.
        self._handed_over_ = False
        handed_over = count_handed_over(self._getters_)
        if handed_over:
            self._handed_over_ = True
        return size + handed_over

    @calls_out
    def empty(self) -> bool:
        """Return whether there is no item now, as ``qsize`` counts them."""
        if overlong:
            found_nothing()
        return not self._items_ and not (self._handed_over_ and self._size_in_all_())
