"""The standard ``queue`` on dhagas: Queue, LifoQueue, PriorityQueue, SimpleQueue, with 3.13's shutdown everywhere.

Safe between dhagas of any scheduler and plain OS threads. An item goes straight to the first that waits for one; a
parked putter's item is taken in by whoever makes room. For the lines marked ``one step`` see ``locks.py``.
"""

from __future__ import annotations

import heapq
import sys
import types
from collections import deque
from queue import Empty, Full
from typing import Any, Generic, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.waiter import Waiter
from .kernel.waiting import WaitQueue, outsider, this_waiter
from .simplequeue import NOTHING, SimpleQueue, check_timeout

if sys.version_info >= (3, 13):
    from queue import ShutDown
else:

    class ShutDown(Exception):
        """Raised by put and get of a queue that is shut down."""


__all__ = ["Empty", "Full", "LifoQueue", "PriorityQueue", "Queue", "ShutDown", "SimpleQueue"]

T = TypeVar("T")

MOMENT = 0.00005
"""Seconds between two looks at a taken Guard: whoever holds it is done long before, once its OS thread runs again."""


class Guard:
    """Keep other OS threads out for some lines that never park: a lock of the OS at a sixth of its cost.

    As there, whoever comes back to it in a signal handler or a finalizer, on the thread that holds it, waits for ever.
    """

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free = True

    def acquire(self) -> None:
        """Take it; another OS thread holds it for microseconds, unless it was interrupted."""
        while True:
            if self.free: self.free = False; return  # one step  # fmt: skip  # noqa: E701, E702
            originals.thread_sleep(MOMENT)

    def release(self) -> None:
        """Give it back."""
        self.free = True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.free = True


class Queue(Generic[T]):
    """A FIFO queue, bounded if ``maxsize`` is above 0. Source: ``queue.Queue``, with ``shutdown`` on every Python.

    Subclasses may override ``_init``, ``_qsize``, ``_put`` and ``_get``, which are called under ``mutex`` and must not
    park. When that is given back there are never getters beside items, nor putters beside room. ``not_empty`` and
    ``not_full`` do not exist.
    """

    queue: Any

    def __init__(self, maxsize: int = 0) -> None:
        self.maxsize = maxsize
        self.unfinished_tasks = 0
        self.is_shutdown = False
        self.mutex = Guard()
        self.getters = WaitQueue(self, "queue.get")
        self.putters = WaitQueue(self, "queue.put")  # each one's item is in its `value`
        self.joiners = WaitQueue(self, "queue.join")
        self._init(maxsize)
        self.stock: Any = None  # the items, if they can be taken without the mutex
        self.direct = False  # may an item go straight to a getter?
        self.use_shortcuts()

    __class_getitem__ = classmethod(types.GenericAlias)  # type: ignore[var-annotated]

    def __repr__(self) -> str:
        parked = f"{len(self.getters)} parked in get, {len(self.putters)} in put"
        return f"<{type(self).__name__} of {self._qsize()}, {parked}{', shut down' if self.is_shutdown else ''}>"

    # ---- what a kind of queue is made of

    def _init(self, maxsize: int) -> None:
        self.queue = deque()

    def _qsize(self) -> int:
        return len(self.queue)

    def _put(self, item: T) -> None:
        self.queue.append(item)

    def _get(self) -> T:
        return self.queue.popleft()  # type: ignore[no-any-return]

    def use_shortcuts(self) -> None:
        """Use what a deque and a list can do themselves, where no subclass has put methods of its own instead."""
        kind, queue = type(self), getattr(self, "queue", None)
        own = (kind._qsize, kind._put, kind._get)
        if own == (Queue._qsize, Queue._put, Queue._get) and type(queue) is deque:
            self.stock, self.take = queue, queue.popleft  # type: ignore[method-assign]
        elif own == (Queue._qsize, LifoQueue._put, LifoQueue._get) and type(queue) is list:
            self.stock, self.take = queue, queue.pop  # type: ignore[method-assign]
        else:
            self.direct = own == (Queue._qsize, PriorityQueue._put, PriorityQueue._get)
            return
        self.store, self.size = queue.append, queue.__len__  # type: ignore[assignment, method-assign]
        self.direct = True

    def take(self) -> T:
        return self._get()

    def store(self, item: T) -> None:
        self._put(item)

    def size(self) -> int:
        return self._qsize()

    # ---- put

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item.

        Parks: while the queue is full (``queue.put``). Raises: Full after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        mutex = self.mutex
        if mutex.free: mutex.free = False  # one step  # fmt: skip  # noqa: E701
        else:
            mutex.acquire()
        try:
            if self.is_shutdown:
                raise ShutDown
            while self.getters and self.direct:
                try:
                    getter = self.getters.popleft()
                except IndexError:  # the timeout of the last one, in another OS thread
                    break
                if getter.unpark(item):
                    self.unfinished_tasks += 1
                    return
            if self.maxsize <= 0 or self.size() < self.maxsize:
                self.store(item)
                self.unfinished_tasks += 1
                if self.getters:
                    self.serve_getters()
                return
            if not block or timeout == 0:
                raise Full
            me = this_waiter()
            me.prepare("queue.put", self.putters)
            me.value = item
            self.putters.append(me)
            self.admit_putters()  # a getter may just have made room, and have seen no putter
        finally:
            mutex.free = True
        self.park_for(me, timeout, Full)

    def park_for(self, me: Waiter, timeout: float | None, late: type[Exception]) -> Any:
        try:
            return me.park(timeout)
        except TimeoutError:
            raise late from None

    def serve_getters(self) -> None:
        """Have a subclass's own ``_get`` choose for those that wait; its errors are theirs."""
        while self.getters and self._qsize():
            try:
                getter = self.getters.popleft()
            except IndexError:  # the timeout of the last one, in another OS thread
                return
            if not getter.parked:  # a fork has left it in the parent
                continue
            try:
                item = self._get()
            except BaseException as error:
                getter.unpark(error=error)
            else:
                getter.unpark(item)

    def make_up(self) -> None:
        """Let putters use the room that somebody made."""
        with self.mutex:
            self.admit_putters()

    def admit_putters(self) -> None:
        """Store the items of parked putters while there is room, and wake them."""
        while self.putters and (self.maxsize <= 0 or self.size() < self.maxsize):
            try:
                putter = self.putters.popleft()
            except IndexError:  # the timeout of the last one, in another OS thread
                return
            if not putter.parked:  # a fork has left it in the parent
                continue
            try:
                self.store(putter.value)
            except BaseException as error:  # of a subclass's own _put: the putter's business
                putter.unpark(error=error)
            else:
                self.unfinished_tasks += 1
                putter.unpark(True)

    def put_nowait(self, item: T) -> None:
        """Add an item. Raises: Full, ShutDown."""
        self.put(item, block=False)

    # ---- get

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take an item.

        Parks: while there is none (``queue.get``). Raises: Empty after ``timeout`` seconds, ShutDown.
        """
        if timeout is not None and block:
            check_timeout(timeout)
        if self.stock:
            try:
                item: T = self.take()
            except IndexError:  # another thread was faster
                pass
            else:
                if self.putters:
                    self.make_up()
                return item
        mutex = self.mutex
        if mutex.free: mutex.free = False  # one step  # fmt: skip  # noqa: E701
        else:
            mutex.acquire()
        try:
            if self.putters:
                self.admit_putters()
            if self.stock or (self.stock is None and self._qsize()):
                item = self.take_under_mutex()
                if item is not NOTHING:
                    return item
            if self.is_shutdown:
                raise ShutDown
            if not block or (timeout is not None and timeout <= 0):
                raise Empty
            me: Any = getcurrent()
            try:
                scheduler = me.scheduler
            except AttributeError:  # not a dhaga
                me, scheduler = outsider(me), None
            if me.pending:  # prepare(), written out, as park() is below: 10 % of a ping-pong
                raise me.pending.pop(0)
            me.place = self.getters
            me.parked.append("queue.get")
            self.getters.append(me)
        finally:
            mutex.free = True
        if timeout is None and scheduler is not None:
            return scheduler.park(me)  # type: ignore[no-any-return]
        return self.park_for(me, timeout, Empty)  # type: ignore[no-any-return]

    def take_under_mutex(self) -> T:
        """Take an item and let a putter use its place; NOTHING if another thread took the last one from beside."""
        try:
            item = self.take()
        except IndexError:
            if self.size():
                raise
            return NOTHING  # type: ignore[no-any-return]
        self.admit_putters()
        return item

    def get_nowait(self) -> T:
        """Take an item. Raises: Empty, ShutDown."""
        return self.get(block=False)

    # ---- the rest

    def qsize(self) -> int:
        """Return how many items there are; another thread may change that any time."""
        return self._qsize()

    def empty(self) -> bool:
        """Tell whether there is no item now."""
        return not self._qsize()

    def full(self) -> bool:
        """Tell whether a put would have to wait now."""
        return 0 < self.maxsize <= self._qsize()

    def task_done(self) -> None:
        """Report one item that was taken as worked off. Raises: ValueError if more is reported than was put."""
        with self.mutex:
            if self.unfinished_tasks <= 0:
                raise ValueError("task_done() called too many times")
            self.unfinished_tasks -= 1
            if not self.unfinished_tasks:
                self.joiners.wake_all()

    def join(self) -> None:
        """Wait until every item put was reported by ``task_done``. Parks: ``queue.join``."""
        self.all_tasks_done.wait()

    @property
    def all_tasks_done(self) -> AllTasksDone:
        """What ``join`` waits for: programs wait for it with a timeout."""
        return AllTasksDone(self)

    def shutdown(self, immediate: bool = False) -> None:
        """Have put raise ShutDown from now on, and get once the queue is empty. ``immediate``: drop what is in it."""
        with self.mutex:
            self.is_shutdown = True
            turn_away(self.putters)
            while immediate and self.size() and self.take_under_mutex() is not NOTHING:
                self.unfinished_tasks -= self.unfinished_tasks > 0
            if not self.unfinished_tasks:
                self.joiners.wake_all()
            if not self.size():
                turn_away(self.getters)


class AllTasksDone:
    """The moment when every item of a queue was reported as worked off, with the face of a Condition.

    Source: the Condition that ``queue.Queue`` has by this name. To hold this one keeps nobody out.
    """

    __slots__ = ("whose",)

    def __init__(self, whose: Queue[Any]) -> None:
        self.whose = whose

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it. Parks: ``queue.join``. Returns: False after ``timeout`` seconds."""
        queue = self.whose
        with queue.mutex:
            if not queue.unfinished_tasks:
                return True
            if timeout is not None and timeout <= 0:
                return False
            me = this_waiter()
            me.prepare("queue.join", queue.joiners)
            queue.joiners.append(me)
        try:
            me.park(timeout)
        except TimeoutError:
            return False
        return True

    def notify_all(self) -> None:
        """Have everybody go on who waits for it, as who sets ``unfinished_tasks`` to 0 does."""
        self.whose.joiners.wake_all()

    notify = notify_all

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...


def turn_away(waiters: WaitQueue) -> None:
    """Tell everybody who waits that the queue is shut down."""
    while waiters:
        try:
            waiter: Waiter = waiters.popleft()
        except IndexError:  # the timeout of the last one, in another OS thread
            return
        waiter.unpark(error=ShutDown())


class LifoQueue(Queue[T]):
    """A queue that gives the newest item first. Source: ``queue.LifoQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue = []

    def _put(self, item: T) -> None:
        self.queue.append(item)

    def _get(self) -> T:
        return self.queue.pop()  # type: ignore[no-any-return]


class PriorityQueue(Queue[T]):
    """A queue that gives the lowest item first. Source: ``queue.PriorityQueue``."""

    def _init(self, maxsize: int) -> None:
        self.queue = []

    def _put(self, item: T) -> None:
        heapq.heappush(self.queue, item)

    def _get(self) -> T:
        return heapq.heappop(self.queue)  # type: ignore[no-any-return]
