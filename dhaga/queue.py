"""The standard ``queue`` for dhagas: Queue, LifoQueue, PriorityQueue and SimpleQueue, with Python 3.13's shutdown.

Dhagas of any scheduler and plain OS threads may share a queue. A Queue has a lock, ``mutex``, which is held only for a
few lines that never park. While the mutex is free, getters wait only if there are no items, and putters only if there
is no room. ``put`` hands an item over to the first waiting getter. The item of a waiting putter is kept in the putter's
``_value`` until a ``get`` makes room and stores the item. So a woken waiter need not check the queue again, and no
later caller overtakes it.

``get`` needs no mutex if one atomic call of a deque or list removes the item (see ``_sync/lock.py``). In this case,
``get`` acquires the mutex only if putters wait. A subclass's own methods may run any code, so they are always called
with the mutex held. ``_sync/queue_items.py`` sets three attributes of each queue. ``_stock_`` is the collection of
items, or None if items may be removed only with the mutex held. ``_take_`` is the function that removes an item.
``_hands_over_`` is true if an item may go straight to a getter.

``qsize`` counts a handed-over item until its getter runs. With OS threads, such an item would still be in the queue.
Thread pools rely on this: they compute the number of threads to start from ``busy + qsize()``. But a caller whose
``get`` raises Empty at once can conclude that all items are gone. So from then on, ``qsize`` does not count the items
that were handed over before.

If a program waits on ``not_empty`` or ``not_full``, the caller queues up among the getters or putters, as a watcher: it
is woken in its turn, without a hand-over. After the first use of these conditions, all calls of that queue hold the
mutex.

Rejected: an OS lock as the mutex, because it costs six times as much as Dhaga's lock. Rejected: conditions, as in the
standard Queue, because each item would wake a getter that then competes for the lock.
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
        """Raised by ``put`` and ``get`` of a queue that was shut down."""


__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]

T = TypeVar("T")

watching: Any = originals.RLock()
"""Lock that is held while a queue's set of watchers is created, so that only one set is created."""


def renew_lock() -> None:
    """Replace the lock in a forked child, because another thread of the parent may have held it."""
    global watching
    watching = originals.RLock()


system.register_at_fork(after_in_child=renew_lock)


class Queue(QueueItems[T]):
    """A FIFO queue, bounded if ``maxsize`` is above 0. Source: ``queue.Queue``, with ``shutdown`` of Python 3.13.

    Subclasses may override ``_init``, ``_qsize``, ``_put`` and ``_get``, which are called with ``mutex`` held and must
    not park. Programs may also replace these methods, and the attribute ``queue``, on an instance.

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
        self._putters_ = WaitQueue(self, "queue.put")  # each waiter's item is in its _value
        self._joiners_ = WaitQueue(self, "queue.join")
        self._handed_over_ = False  # whether a woken getter may still have to run
        self._watchers_: set[Waiter] | None = None  # waiters of not_empty and not_full; None before the first use
        self._init(maxsize)
        self._bind_shortcuts_()

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        parked = f"{self._getters_.parked()} parked in get, {self._putters_.parked()} in put"
        return f"<{type(self).__name__} of {self._qsize()}, {parked}{', shut down' if self.is_shutdown else ''}>"

    def _init(self, maxsize: int) -> None:
        self.queue: Any = deque()

    # ---- put

    @compiled  # in C only for put(item), with a free mutex, items in a deque, and no waiters except getters
    @calls_out
    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        Parks: while the queue is full (``queue.put``). Raises: Full after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block and self.maxsize > 0:
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
                except IndexError:  # the getter has left, or another OS thread took the last ticket
                    continue
                getter.deliver_wake(item)
                self._handed_over_ = True  # after the wake, because qsize() searches the woken getters
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
            # Check again: a get() without the mutex may have made room before this putter queued up.
            if FREE_THREADED and self._stock_ is not None:
                fence(self._stock_)
            try:
                self._admit_putters_()
            except BaseException as raised:  # an error of a subclass's _qsize()
                self._putters_.leave_with(raised, me)
        finally:
            mutex._free = True
        self._park_for_(me, timeout, Full)

    def _park_for_(self, me: Waiter, timeout: float | None, late: type[Exception]) -> Any:
        value = me.park_within(timeout)
        if value is TIMED_OUT:
            raise late
        return value

    def _serve_getters_(self) -> None:
        """Hand over items to getters with the subclass's ``_get``, whose errors are raised in the getter.

        A watcher is only woken: one item per watcher stays in the queue for the watcher to remove.
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
        """Wake a getter with an item, or with the error of the subclass's ``_get``."""
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
        """Store the items of parked putters while there is room, and wake these putters."""
        if self._watchers_:
            self._admit_beside_watchers_()
            return
        while self._putters_ and (self.maxsize <= 0 or self._size_() < self.maxsize):
            putter = self._putters_.take_first()
            if putter is None:
                return
            # The body of _admit_() is repeated here: a call would add 2 % to the time of a put that waits.
            try:
                self._store_(putter._value)
            except BaseException as error:  # an error of a subclass's _put() is raised in the putter
                putter.deliver_wake(error=error)
            else:
                self.unfinished_tasks += 1
                putter.deliver_wake(True)

    def _admit_beside_watchers_(self) -> None:
        """Admit putters and watchers in turn. A watcher is only woken; room for one item is kept for the watcher."""
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
        except BaseException as error:  # an error of a subclass's _put() is raised in the putter
            putter.deliver_wake(error=error)
        else:
            self.unfinished_tasks += 1
            putter.deliver_wake(True)

    @calls_out
    def put_nowait(self, item: T) -> None:
        """Add an item. Raises: Full, ShutDown."""
        self.put(item, block=False)

    # ---- get

    @compiled  # in C only for items in a deque
    @calls_out
    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Remove and return an item.

        Parks: while there is no item (``queue.get``). Raises: Empty after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        if self._stock_:
            try:
                item: T = self._take_()
            except IndexError:  # another OS thread took the last item
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
                self._handed_over_ = False  # this caller found the queue empty, so handed-over items no longer count
                raise Empty
            me = this_waiter()
            me.prepare_park(self._getters_.reason, self._getters_)
            self._getters_.append(me.parked)
        finally:
            mutex._free = True
        item = me.park_within(timeout)
        if item is TIMED_OUT:
            raise Empty
        return item

    def _take_under_mutex_(self) -> T:
        """Remove and return an item, and admit a putter. Returns: NOTHING if another ``get`` took the last item."""
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
        """Record that one item has been processed. Raises: ValueError if called more often than ``put``."""
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
        """Wait until ``task_done`` was called once for every item. Parks: ``queue.join``."""
        finished = self.all_tasks_done
        while self.unfinished_tasks:  # a program may notify the condition before all tasks are done
            finished.wait()

    @property
    def all_tasks_done(self) -> AllTasksDone:
        """The condition that ``join`` waits for. Programs use the condition to wait with a timeout."""
        return AllTasksDone(self, self._joiners_)

    @property
    def not_empty(self) -> QueueCondition:
        """The condition that getters wait for, with the lock ``mutex``. Subclasses wait on the condition for a special
        item.
        """
        return QueueCondition(self.mutex, self._getters_, self._watched_(), self._serve_getters_)

    @property
    def not_full(self) -> QueueCondition:
        """The condition that putters wait for, with the lock ``mutex``. A program that makes room must notify the
        condition.
        """
        return QueueCondition(self.mutex, self._putters_, self._watched_(), self._admit_putters_)

    def _watched_(self) -> set[Waiter]:
        """Return the set of watchers. After the first call, ``put`` and ``get`` always hold the mutex."""
        if self._watchers_ is None:
            with watching:
                self._watchers_ = set() if self._watchers_ is None else self._watchers_
                self._bind_shortcuts_()
        return self._watchers_

    def shutdown(self, immediate: bool = False) -> None:
        """Make ``put``, and ``get`` of an empty queue, raise ShutDown. ``immediate``: remove all items first."""
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
        """Raise ShutDown in all waiters except watchers, which are only woken."""
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
