"""The standard ``queue`` on dhagas: Queue, LifoQueue, PriorityQueue, SimpleQueue, with 3.13's shutdown on every Python.

Safe between dhagas of any scheduler and plain OS threads. A Queue has a lock, ``mutex``, held for a few lines that
never park; while it is free, getters wait only if there are no items, and putters only if there is no room. An item
goes straight to the first getter (hand-over); the item of a waiting putter is in the putter's wake value until a
``get`` makes room and stores it. So a woken waiter has its item, and no later caller overtakes it.

``get`` takes an item without the mutex where that is one atomic call of a deque or a list (``_sync/lock.py`` explains
the atomic lines), and enters the mutex only if putters wait. A subclass's own methods, which may do anything, are
always called with the mutex held. ``_sync/queue_items.py`` decides that for each queue: ``_stock_`` is the items that
may be taken without the mutex, ``_take_`` takes one, ``_hands_over_`` says whether one may go straight to a getter.

``qsize`` counts an item that was handed over until its getter runs, because it would be in the queue among OS threads:
pools of threads grow by ``busy + qsize()``. A ``get`` that finds nothing ends that count, because its caller knows then
that the item is gone.

A program that uses ``not_empty`` or ``not_full`` waits beside our getters and putters, as a watcher: it is woken in its
turn, with nothing handed over. The first use turns the calls without the mutex off for that queue.

Rejected: an OS lock as the mutex, at six times the cost; conditions, as in the standard Queue: each item would wake a
getter that then competes for the lock.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable
from queue import Empty, Full
from typing import Any, TypeVar

from ._kernel import originals
from ._kernel.faces.arguments import check_timeout
from ._kernel.fast.compiled import compiled
from ._kernel.interpreter.guards import fence
from ._kernel.interpreter.requirements import FREE_THREADED
from ._kernel.platform.system import system
from ._kernel.run.call_outs import calls_out
from ._kernel.run.preemption import found_nothing, overlong
from ._kernel.wait.current import this_waiter
from ._kernel.wait.wait_queue import WaitQueue
from ._kernel.wait.waiter import TIMED_OUT, Waiter
from ._sync.mutex import Mutex
from ._sync.overridable import overridable
from ._sync.queue_conditions import AllTasksDone, QueueCondition
from ._sync.queue_items import QueueItems, get_lowest, get_newest, put_newest, put_sorted
from ._sync.simple_queue import NOTHING, SimpleQueue

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):
        """Raised by ``put`` and ``get`` of a queue that is shut down."""


__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]

T = TypeVar("T")

watching: Any = originals.RLock()
"""Held while a queue gets its set of watchers: a second set would hide the waiters in the first."""


def renew_lock() -> None:
    """In a forked child, replace the lock, which another thread of the parent may have held."""
    global watching
    watching = originals.RLock()


system.register_at_fork(after_in_child=renew_lock)


class Queue(QueueItems[T]):
    """A FIFO queue, bounded if ``maxsize`` is above 0. Source: ``queue.Queue``, with ``shutdown`` on every Python.

    Subclasses may override ``_init``, ``_qsize``, ``_put`` and ``_get``, which are called under ``mutex`` and must not
    park; programs may replace them, and ``queue``, on an instance.

    >>> queue = Queue(maxsize=1)
    >>> queue.put("item"), queue.full(), queue.get()
    (None, True, 'item')
    """

    __slots__ = (
        "__dict__", "__weakref__", "_getters_", "_joiners_", "_putters_", "is_shutdown", "maxsize", "mutex",
        "unfinished_tasks",
    )  # fmt: skip

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize: int = maxsize
        self.unfinished_tasks: int = 0
        self.is_shutdown: bool = False
        self.mutex: Mutex = Mutex()
        self._getters_ = WaitQueue(self, "queue.get")
        self._putters_ = WaitQueue(self, "queue.put")  # the item of each is in its _value
        self._joiners_ = WaitQueue(self, "queue.join")
        self._handed_over_ = False  # whether an item may be on its way to a getter
        self._watchers_: set[Waiter] | None = None  # waiters of not_empty and not_full; None until one of these is used
        self._init(maxsize)
        self._bind_shortcuts_()

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        parked = f"{self._getters_.parked()} parked in get, {self._putters_.parked()} in put"
        return f"<{type(self).__name__} of {self._qsize()}, {parked}{', shut down' if self.is_shutdown else ''}>"

    def _init(self, maxsize: int) -> None:
        self.queue: Any = deque()

    # ---- put

    @compiled  # C: only the item, a free mutex, items in a deque; only getters wait for items
    @calls_out
    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        Parks: while the queue is full (``queue.put``). Raises: Full after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        if overlong and not block:
            found_nothing()
        mutex = self.mutex
        if mutex._free: mutex._free = False  # atomic  # fmt: skip
        else:
            mutex.acquire()
        try:
            if self.is_shutdown:
                raise ShutDown
            while self._getters_ and self._hands_over_:
                try:
                    getter = self._getters_.popleft().pop()
                except IndexError:  # the waiter has left, or another OS thread took the last one
                    continue
                getter.deliver_wake(item)
                self._handed_over_ = True  # after the wake: qsize() looks for the getter among those that were woken
                self.unfinished_tasks += 1
                return
            if self.maxsize <= 0 or self._size_() < self.maxsize:
                self._store_(item)
                self.unfinished_tasks += 1
                if self._getters_:
                    self._serve_getters_()
                return
            if not block or timeout == 0:
                raise Full
            me = this_waiter()
            me.prepare_park("queue.put", self._putters_)
            me._value = item
            self._putters_.append(me.parked)
            # Check again: a get() without the mutex may have made room before this putter was queued.
            if FREE_THREADED and self._stock_ is not None:
                fence(self._stock_)
            self._admit_putters_()
        finally:
            mutex._free = True
        self._park_for_(me, timeout, Full)

    def _park_for_(self, me: Waiter, timeout: float | None, late: type[Exception]) -> Any:
        value = me.park_within(timeout)
        if value is TIMED_OUT:
            raise late
        return value

    def _serve_getters_(self) -> None:
        """Hand items to getters by the subclass's own ``_get``, whose errors are raised in the getter.

        A watcher's item stays in the queue, and the watcher takes it later.
        """
        promised = 0
        while self._getters_ and self._qsize() > promised:
            getter = self._getters_.take_first()
            if getter is None:
                return
            if self._watchers_ and getter in self._watchers_:
                promised += 1
                getter.deliver_wake(True)
            else:
                self._deliver_next_(getter, self._get)

    def _deliver_next_(self, getter: Waiter, take: Callable[[], T]) -> None:
        """Wake a getter with an item, or with the error of the subclass's method."""
        try:
            item = take()
        except BaseException as error:
            getter.deliver_wake(error=error)
        else:
            getter.deliver_wake(item)
            self._handed_over_ = True

    def _use_room_(self) -> None:
        """Admit putters after a ``get`` without the mutex."""
        self.mutex.acquire()
        try:
            self._admit_putters_()
        finally:
            self.mutex._free = True

    def _admit_putters_(self) -> None:
        """Store the items of parked putters while there is room, and wake them."""
        if self._watchers_:
            self._admit_beside_watchers_()
            return
        while self._putters_ and (self.maxsize <= 0 or self._size_() < self.maxsize):
            putter = self._putters_.take_first()
            if putter is None:
                return
            # As in _admit_(): a call of it would cost 2 % of a put that waits.
            try:
                self._store_(putter._value)
            except BaseException as error:  # of a subclass's _put(): raised in the putter
                putter.deliver_wake(error=error)
            else:
                self.unfinished_tasks += 1
                putter.deliver_wake(True)

    def _admit_beside_watchers_(self) -> None:
        """Admit putters among which watchers wait: a watcher has nothing to store yet, and its room stays free."""
        promised = 0
        while self._putters_ and (self.maxsize <= 0 or self._size_() + promised < self.maxsize):
            putter = self._putters_.take_first()
            if putter is None:
                return
            if self._watchers_ and putter in self._watchers_:
                promised += 1
                putter.deliver_wake(True)
            else:
                self._admit_(putter)

    def _admit_(self, putter: Waiter) -> None:
        """Store a putter's item, and wake the putter."""
        try:
            self._store_(putter._value)
        except BaseException as error:  # of a subclass's _put(): raised in the putter
            putter.deliver_wake(error=error)
        else:
            self.unfinished_tasks += 1
            putter.deliver_wake(True)

    @calls_out
    def put_nowait(self, item: T) -> None:
        """Add an item. Raises: Full, ShutDown."""
        self.put(item, block=False)

    # ---- get

    @compiled  # C: items in a deque
    @calls_out
    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove and return an item.

        Parks: while there is none (``queue.get``). Raises: Empty after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        if self._stock_:
            try:
                item: T = self._take_()
            except IndexError:  # another OS thread took the last one
                pass
            else:
                if self._putters_:
                    self._use_room_()
                return item
        if overlong and not block:
            found_nothing()
        mutex = self.mutex
        if mutex._free: mutex._free = False  # atomic  # fmt: skip
        else:
            mutex.acquire()
        try:
            if self._putters_:
                self._admit_putters_()
            if self._stock_ or (self._stock_ is None and self._size_()):
                item = self._take_under_mutex_()
                if item is not NOTHING:
                    return item
            if self.is_shutdown:
                raise ShutDown
            if not block or (timeout is not None and timeout <= 0):
                self._handed_over_ = False  # the caller sees that the items handed over are gone
                raise Empty
            me = this_waiter()
            me.prepare_park(self._getters_.reason, self._getters_)
            self._getters_.append(me.parked)
        finally:
            mutex._free = True
        try:
            item = me.park_within(timeout)
        finally:
            me.wait_target = None  # qsize() counts this getter's item until now
        if item is TIMED_OUT:
            raise Empty
        return item

    def _take_under_mutex_(self) -> T:
        """Remove and return an item, and admit a putter. Returns: NOTHING if another ``get`` took the last one."""
        try:
            item = self._take_()
        except IndexError:
            if self._size_():
                raise
            return NOTHING  # type: ignore[no-any-return]
        self._admit_putters_()
        return item

    @calls_out
    def get_nowait(self) -> T:
        """Remove and return an item. Raises: Empty, ShutDown."""
        return self.get(block=False)

    # ---- the rest

    def task_done(self) -> None:
        """Count one taken item as done. Raises: ValueError if more items are done than were put."""
        self.mutex.acquire()
        try:
            if self.unfinished_tasks <= 0:
                raise ValueError("task_done() called too many times")
            self.unfinished_tasks -= 1
            if not self.unfinished_tasks:
                self._joiners_.wake_all()
        finally:
            self.mutex._free = True

    def join(self) -> None:
        """Wait until ``task_done`` was called for every item put. Parks: ``queue.join``."""
        self.all_tasks_done.wait()

    @property
    def all_tasks_done(self) -> AllTasksDone:
        """The condition that ``join`` waits for. Programs use it to wait with a timeout."""
        return AllTasksDone(self, self._joiners_)

    @property
    def not_empty(self) -> QueueCondition:
        """The condition that a getter waits for, over ``mutex``: subclasses wait for a special item with it."""
        return QueueCondition(self.mutex, self._getters_, self._watched_(), self._serve_getters_)

    @property
    def not_full(self) -> QueueCondition:
        """The condition that a putter waits for, over ``mutex``: a program that has made room notifies it."""
        return QueueCondition(self.mutex, self._putters_, self._watched_(), self._admit_putters_)

    def _watched_(self) -> set[Waiter]:
        """Return the waiters of the two conditions; from the first call on, ``put`` and ``get`` hold the mutex."""
        if self._watchers_ is None:
            with watching:
                self._watchers_ = set() if self._watchers_ is None else self._watchers_
                self._bind_shortcuts_()
        return self._watchers_

    def shutdown(self, immediate: bool = False) -> None:
        """Make ``put`` raise ShutDown, and ``get`` once the queue is empty. ``immediate``: drop all items first."""
        self.mutex.acquire()
        try:
            self.is_shutdown = True
            self._wake_with_shutdown_(self._putters_)
            while immediate and self._size_() and self._take_under_mutex_() is not NOTHING:
                self.unfinished_tasks -= self.unfinished_tasks > 0
            if not self.unfinished_tasks:
                self._joiners_.wake_all()
            if not self._size_():
                self._wake_with_shutdown_(self._getters_)
        finally:
            self.mutex._free = True

    def _wake_with_shutdown_(self, waiters: WaitQueue) -> None:
        """Raise ShutDown in all waiters; a watcher looks for itself."""
        while (waiter := waiters.take_first()) is not None:
            watches = self._watchers_ is not None and waiter in self._watchers_
            waiter.deliver_wake(error=None if watches else ShutDown())


class LifoQueue(Queue[T]):
    """A queue that returns the newest item first. Source: ``queue.LifoQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue: Any = []

    _put = overridable(put_newest)
    _get = overridable(get_newest)


class PriorityQueue(Queue[T]):
    """A queue that returns the lowest item first. Source: ``queue.PriorityQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue: Any = []

    _put = overridable(put_sorted)
    _get = overridable(get_lowest)
