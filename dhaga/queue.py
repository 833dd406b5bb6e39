"""The standard ``queue`` on dhagas: Queue, LifoQueue, PriorityQueue, SimpleQueue, with 3.13's shutdown on every Python.

Safe between dhagas of any scheduler and plain OS threads. A Queue has a lock, ``mutex``, held for a few lines that
never park; while it is free, getters wait only if there are no items, and putters only if there is no room. An item
goes straight to the first getter (hand-over); the item of a waiting putter is in the putter's wake value until a
``get`` makes room and stores it. So a woken waiter has its item, and no later caller overtakes it.

``get`` takes an item without the mutex where that is one atomic call of a deque or a list (``_sync/lock.py`` explains
the atomic lines), and enters the mutex only if putters wait. A subclass's own methods, which may do anything, are
always called with the mutex held.

Rejected: an OS lock as the mutex, at six times the cost; conditions, as in the standard Queue: each item would wake a
getter that then competes for the lock.
"""

from __future__ import annotations

import heapq
import sys
import types
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._kernel.arguments import check_timeout, check_wait_timeout
from ._kernel.fast.compiled import compiled
from ._kernel.run.call_outs import calls_out
from ._kernel.run.preemption import found_nothing, overlong
from ._kernel.wait.current import this_waiter
from ._kernel.wait.wait_queue import WaitQueue
from ._kernel.wait.waiter import TIMED_OUT, Waiter
from ._sync.mutex import Mutex
from ._sync.overridable import overridable
from ._sync.simple_queue import NOTHING, SimpleQueue

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):
        """Raised by ``put`` and ``get`` of a queue that is shut down."""


__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]

T = TypeVar("T")


class Queue(Generic[T]):
    """A FIFO queue, bounded if ``maxsize`` is above 0. Source: ``queue.Queue``, with ``shutdown`` on every Python.

    Subclasses may override ``_init``, ``_qsize``, ``_put`` and ``_get``, which are called under ``mutex`` and must not
    park; programs may replace them, and ``queue``, on an instance. ``not_empty`` and ``not_full`` do not exist.

    >>> queue = Queue(maxsize=1)
    >>> queue.put("item"), queue.full(), queue.get()
    (None, True, 'item')
    """

    __slots__ = (
        "__dict__", "__weakref__", "_getters", "_hands_over", "_items", "_joiners", "_putters", "_stock", "is_shutdown",
        "maxsize", "mutex", "unfinished_tasks",
    )  # fmt: skip

    _replaced: Mapping[str, Any] = {}  # methods that a program has replaced on this queue

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize: int = maxsize
        self.unfinished_tasks: int = 0
        self.is_shutdown: bool = False
        self.mutex: Mutex = Mutex()
        self._getters = WaitQueue(self, "queue.get")
        self._putters = WaitQueue(self, "queue.put")  # the item of each is in its _value
        self._joiners = WaitQueue(self, "queue.join")
        self._init(maxsize)
        self._bind_shortcuts()

    __class_getitem__: Any = classmethod(types.GenericAlias)

    def __repr__(self) -> str:
        parked = f"{self._getters.parked()} parked in get, {self._putters.parked()} in put"
        return f"<{type(self).__name__} of {self._qsize()}, {parked}{', shut down' if self.is_shutdown else ''}>"

    # ---- the methods that subclasses override

    def _init(self, maxsize: int) -> None:
        self.queue = deque()

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

    def _set_items(self, items: Any) -> None:
        self._items = items
        if hasattr(self, "_stock"):  # not in __init__(), which binds them at its end
            self._bind_shortcuts()

    if TYPE_CHECKING:
        queue: Any
    else:
        queue = property(attrgetter("_items"), _set_items)

    def _bind_shortcuts(self) -> None:
        """Bind the methods of the deque or list directly, unless a subclass or a program has replaced them.

        ``_stock`` is the items if they may be taken without the mutex; ``_hands_over`` says whether an item may go
        straight to a getter, without ``_put`` and ``_get``.
        """
        # Do not read __dict__: that would create it, and slow down each access to an attribute (queue ping-pong: 34 %).
        items = getattr(self, "queue", None)
        bound = None if any(self._replaced.values()) else shortcuts(type(self), items)
        self._hands_over = bound is not None
        self._stock: Any = None if bound is None or type(self)._get is PRIORITY[2] else items
        if bound is None:
            for name in ("_take", "_store", "_size"):
                with suppress(AttributeError):  # not bound
                    delattr(self, name)
        else:
            self._take, self._store, self._size = bound  # type: ignore[method-assign]

    def _take(self) -> T:
        return self._get()

    def _store(self, item: T) -> None:
        self._put(item)

    def _size(self) -> int:
        return self._qsize()

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
            while self._getters and self._hands_over:
                try:
                    getter = self._getters.popleft().pop()
                except IndexError:  # the waiter has left, or another OS thread took the last one
                    continue
                getter.deliver_wake(item)
                self.unfinished_tasks += 1
                return
            if self.maxsize <= 0 or self._size() < self.maxsize:
                self._store(item)
                self.unfinished_tasks += 1
                if self._getters:
                    self._serve_getters()
                return
            if not block or timeout == 0:
                raise Full
            me = this_waiter()
            me.prepare_park("queue.put", self._putters)
            me._value = item
            self._putters.append(me.parked)
            # Check again: a get() without the mutex may have made room before this putter was queued.
            self._admit_putters()
        finally:
            mutex._free = True
        self._park_for(me, timeout, Full)

    def _park_for(self, me: Waiter, timeout: float | None, late: type[Exception]) -> Any:
        value = me.park_within(timeout)
        if value is TIMED_OUT:
            raise late
        return value

    def _serve_getters(self) -> None:
        """Hand items to getters by the subclass's own ``_get``, whose errors are raised in the getter."""
        while self._getters and self._qsize():
            getter = self._getters.take_first()
            if getter is None:
                return
            try:
                item = self._get()
            except BaseException as error:
                getter.deliver_wake(error=error)
            else:
                getter.deliver_wake(item)

    def _use_room(self) -> None:
        """Admit putters after a ``get`` without the mutex."""
        self.mutex.acquire()
        try:
            self._admit_putters()
        finally:
            self.mutex._free = True

    def _admit_putters(self) -> None:
        """Store the items of parked putters while there is room, and wake them."""
        while self._putters and (self.maxsize <= 0 or self._size() < self.maxsize):
            putter = self._putters.take_first()
            if putter is None:
                return
            try:
                self._store(putter._value)
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
        if self._stock:
            try:
                item: T = self._take()
            except IndexError:  # another OS thread took the last one
                pass
            else:
                if self._putters:
                    self._use_room()
                return item
        if overlong and not block:
            found_nothing()
        mutex = self.mutex
        if mutex._free: mutex._free = False  # atomic  # fmt: skip
        else:
            mutex.acquire()
        try:
            if self._putters:
                self._admit_putters()
            if self._stock or (self._stock is None and self._size()):
                item = self._take_under_mutex()
                if item is not NOTHING:
                    return item
            if self.is_shutdown:
                raise ShutDown
            if not block or (timeout is not None and timeout <= 0):
                raise Empty
            me = this_waiter()
            me.prepare_park(self._getters.reason, self._getters)
            self._getters.append(me.parked)
        finally:
            mutex._free = True
        item = me.park_within(timeout)
        if item is TIMED_OUT:
            raise Empty
        return item

    def _take_under_mutex(self) -> T:
        """Remove and return an item, and admit a putter. Returns: NOTHING if another ``get`` took the last one."""
        try:
            item = self._take()
        except IndexError:
            if self._size():
                raise
            return NOTHING  # type: ignore[no-any-return]
        self._admit_putters()
        return item

    @calls_out
    def get_nowait(self) -> T:
        """Remove and return an item. Raises: Empty, ShutDown."""
        return self.get(block=False)

    # ---- the rest

    @calls_out
    def qsize(self) -> int:
        """Return the number of items, which another OS thread may change at any time."""
        if overlong:
            found_nothing()
        return self._size()

    @calls_out
    def empty(self) -> bool:
        """Return whether there is no item now."""
        if overlong:
            found_nothing()
        return not self._size()

    @calls_out
    def full(self) -> bool:
        """Return whether a ``put`` would wait now."""
        if overlong:
            found_nothing()
        return 0 < self.maxsize <= self._size()

    def task_done(self) -> None:
        """Count one taken item as done. Raises: ValueError if more items are done than were put."""
        self.mutex.acquire()
        try:
            if self.unfinished_tasks <= 0:
                raise ValueError("task_done() called too many times")
            self.unfinished_tasks -= 1
            if not self.unfinished_tasks:
                self._joiners.wake_all()
        finally:
            self.mutex._free = True

    def join(self) -> None:
        """Wait until ``task_done`` was called for every item put. Parks: ``queue.join``."""
        self.all_tasks_done.wait()

    @property
    def all_tasks_done(self) -> AllTasksDone:
        """The condition that ``join`` waits for. Programs use it to wait with a timeout."""
        return AllTasksDone(self)

    def shutdown(self, immediate: bool = False) -> None:
        """Make ``put`` raise ShutDown, and ``get`` once the queue is empty. ``immediate``: drop all items first."""
        self.mutex.acquire()
        try:
            self.is_shutdown = True
            wake_with_shutdown(self._putters)
            while immediate and self._size() and self._take_under_mutex() is not NOTHING:
                self.unfinished_tasks -= self.unfinished_tasks > 0
            if not self.unfinished_tasks:
                self._joiners.wake_all()
            if not self._size():
                wake_with_shutdown(self._getters)
        finally:
            self.mutex._free = True


class AllTasksDone:
    """Condition-like object for the end of all tasks of a queue.

    Source: the Condition of this name in ``queue.Queue``. Acquiring this one excludes no other caller.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: Queue[Any]) -> None:
        self._queue = queue

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of all tasks. Parks: ``queue.join``. Returns: False after ``timeout`` seconds."""
        queue = self._queue
        queue.mutex.acquire()
        try:
            if not queue.unfinished_tasks:
                return True
            if timeout is not None:
                check_wait_timeout(timeout)
                if timeout <= 0:
                    return False
            me = this_waiter()
            me.prepare_park("queue.join", queue._joiners)
            queue._joiners.append(me.parked)
        finally:
            queue.mutex._free = True
        return me.park_within(timeout) is not TIMED_OUT

    def notify_all(self) -> None:
        """Wake all waiters; for programs that set ``unfinished_tasks`` to 0 themselves."""
        self._queue._joiners.wake_all()

    notify = notify_all

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...


def wake_with_shutdown(waiters: WaitQueue) -> None:
    """Raise ShutDown in all waiters."""
    while (waiter := waiters.take_first()) is not None:
        waiter.deliver_wake(error=ShutDown())


class LifoQueue(Queue[T]):
    """A queue that returns the newest item first. Source: ``queue.LifoQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue: Any = []

    @overridable
    def _put(self, item: T) -> None:
        self.queue.append(item)

    @overridable
    def _get(self) -> T:
        return self.queue.pop()  # type: ignore[no-any-return]


class PriorityQueue(Queue[T]):
    """A queue that returns the lowest item first. Source: ``queue.PriorityQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue: Any = []

    @overridable
    def _put(self, item: T) -> None:
        heapq.heappush(self.queue, item)

    @overridable
    def _get(self) -> T:
        return heapq.heappop(self.queue)  # type: ignore[no-any-return]


FIFO: tuple[Any, Any, Any] = Queue._qsize, Queue._put, Queue._get
LIFO: tuple[Any, Any, Any] = Queue._qsize, LifoQueue._put, LifoQueue._get
PRIORITY: tuple[Any, Any, Any] = Queue._qsize, PriorityQueue._put, PriorityQueue._get


def shortcuts(kind: type[Queue[Any]], items: Any) -> tuple[Any, Any, Any] | None:
    """Return the functions that take, store and count items for a class of queues; None if it has its own methods."""
    own = kind._qsize, kind._put, kind._get
    if own == FIFO and type(items) is deque:
        return items.popleft, items.append, items.__len__
    if own == LIFO and type(items) is list:
        return items.pop, items.append, items.__len__
    if own == PRIORITY and type(items) is list:
        return partial(heapq.heappop, items), partial(heapq.heappush, items), items.__len__
    return None
