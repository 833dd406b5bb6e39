"""Waiting: who can wait, and the one FIFO on which every primitive rests.

A wait has two halves. ``prepare(reason, undo)`` marks the waiter as parked: from then on a wake counts. The waiter
then puts itself where its waker will find it, looks once more whether what it wants has come meanwhile, and calls
``park()``. That order is what makes wakes from other OS threads safe without a lock around it.

Three kinds of waiter share this face: a dhaga and the main code of a thread (both are switched, see
``microthread.py``) and a plain OS thread, which blocks for real (``OSThread``, here).
"""

from __future__ import annotations

import logging
import threading
import weakref
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from greenlet import getcurrent

from . import deadlock, originals
from .cancels import Cancels, Order, cancels_of
from .errors import ParkError

if TYPE_CHECKING:
    from .priorities import Priority
    from .scheduler import Scheduler
    from .timers import Entry


class Place(Protocol):
    """Where a waiter stands while it is parked. To undo the park is to remove it from there.

    One that is ``for_all`` lets anybody wake the waiter; elsewhere that is for whoever has something to hand over.
    """

    def remove(self, waiter: Any, /) -> object:
        """Take the waiter off. ``ValueError`` or False: too late, a waker has it already."""


logger = logging.getLogger("dhaga")


class Bound:
    """The place of a waiter who must get what it waits for: timeouts come too late there, a cancel stays pending."""

    __slots__ = ()

    def remove(self, waiter: object) -> bool:
        return False


class Clock:
    """The place of a sleeper: the end of a sleep is a wake, not an error."""

    __slots__ = ()
    for_all = True

    def remove(self, waiter: object) -> bool:
        return True


BOUND = Bound()
CLOCK = Clock()


class Waiter:
    """The face that wakers see, and the wait of whoever is switched by a scheduler."""

    if not TYPE_CHECKING:  # mypy takes the empty slots of a mixin for all there will be
        __slots__ = ()

    name: str
    scheduler: Scheduler
    queue: Any  # what a wake appends to: the run queue, or that of another priority
    rank: Priority
    parked: list[str]  # holds the reason while parked; taking it out is the atomic claim that decides which wake wins
    place: Place | None
    value: Any
    fault: BaseException | None
    pending: list[BaseException]  # cancels and expired Timeouts not yet raised; a tuple while there are none

    @property
    def priority(self) -> Priority:
        """HIGH, NORMAL or LOW; see ``dhaga.priority``."""
        return self.rank

    def belong(self, scheduler: Scheduler, priority: Priority) -> None:
        """Be run by this scheduler, with this priority, from the next wake on."""
        self.queue = scheduler.queue_of(priority)
        self.scheduler = scheduler
        self.rank = priority

    def prepare(self, reason: str, place: Place | None = None) -> None:
        """Become parked, without switching yet; a pending cancel is raised instead.

        Raises: Cancelled, Expired.
        """
        if self.pending:
            raise self.pending.pop(0)
        self.place = place
        self.parked.append(reason)

    def park(self, timeout: float | None = None) -> Any:
        """Let others run until somebody wakes this waiter.

        Parks: until woken; after ``timeout`` seconds the park is undone. From: the waiter itself, after ``prepare``.
        Returns: the waker's value. Raises: the waker's error, TimeoutError, Cancelled.
        """
        if timeout is None:
            return self.scheduler.park(self)
        scheduler = self.scheduler
        entry: Entry = scheduler.timers.add(scheduler.clock() + timeout, self)
        try:
            return scheduler.park(self)
        finally:
            scheduler.timers.discard(entry)

    def throw_fault(self) -> NoReturn:
        """Raise what this waiter was woken with."""
        error, self.fault = self.fault, None
        assert error is not None
        try:
            raise error
        finally:
            del error  # its traceback holds this frame: that would be a cycle

    def wake(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Make who is parked by ``dhaga.park``, or sleeps, runnable: its park returns ``value`` or raises ``error``.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if it is not parked, or another wake won.
        Raises: RuntimeError if it waits for something that has its own wakers, such as a lock.
        """
        place = self.place
        if place is not None and self.parked and not getattr(place, "for_all", False):
            raise RuntimeError(
                f"{self!r} is not for wake() to release, but for what it waits for, which has something to hand over: "
                "to end the wait, cancel(); to wait for a wake(), dhaga.park()"
            )
        return self.unpark(value, error)

    def unpark(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Do what ``wake`` does, for whoever the waiter waits for, and has been taken off by."""
        try:
            del self.parked[0]  # 40 % cheaper than pop()
        except IndexError:
            return False
        self.value = value
        if error is not None:
            self.fault = error
        self.queue.append(self)
        scheduler = self.scheduler
        if scheduler.asleep:
            scheduler.rouse()
        return True

    def expire(self) -> None:
        """End the park by its own timeout, unless a waker has come first."""
        if self.place is CLOCK:
            self.unpark()
        elif self.parked and self.taken_off():
            self.unpark(error=TimeoutError("timed out"))

    def interrupt(self, error: BaseException) -> None:
        """Raise ``error`` at this park if it can still be undone, else at the next one; not within a shield."""
        pending = self.pending
        shielded = isinstance(pending, Cancels) and pending.holds_off(error)
        if self.parked and not shielded and self.taken_off() and self.unpark(error=error):
            return
        if isinstance(self.pending, tuple):  # a wake was faster, or nothing is to be undone
            self.pending = [error]
        else:
            self.pending.append(error)

    def obey(self, order: Order) -> None:
        """Raise what the order says at this park, if it can still be undone, and at each from now on."""
        cancels = cancels_of(self)
        cancels.append(order)
        if self.parked and not cancels.holds_off(order) and self.taken_off():
            self.unpark(error=order.error())

    def move(self, reason: str) -> bool:
        """Let a parked waiter, just taken off its queue, wait on for what is bound to come; False if it is not
        parked.
        """
        self.place = BOUND
        try:
            self.parked[0] = reason
        except IndexError:
            return False
        return True

    def taken_off(self) -> bool:
        """Undo the park; whether that came in time."""
        if self.place is None:
            return True
        try:
            return self.place.remove(self) is not False
        except ValueError:
            return False
        except Exception:
            logger.exception("the undo of %r failed; it is woken all the same", self)
            return True

    @property
    def waits_on(self) -> object:
        """The object this waiter is parked on, as far as its place tells."""
        if not self.parked or self.place is CLOCK or self.place is BOUND:
            return None
        return getattr(self.place, "owner", self.place)


SIGNAL_SECONDS = 1.0
"""Longest time that the main thread blocks at once. A signal that comes when it is as good as blocked has its handler
called only after that: of 10,000 Ctrl-C sent just as it began to wait, three.
"""


class OSThread(Waiter):
    """A plain OS thread that waits for something of Dhaga: it blocks for real. One object a thread."""

    __slots__ = ("__weakref__", "at_once", "fault", "gate", "ident", "parked", "pending", "place", "value", "woken")

    def __init__(self) -> None:
        self.parked = []
        self.pending = []
        self.place = None
        self.value = None
        self.fault = None
        self.ident = originals.get_ident()
        is_main = self.ident == threading.main_thread().ident
        self.at_once = SIGNAL_SECONDS if is_main else originals.TIMEOUT_MAX
        self.woken = False
        self.gate = originals.allocate_lock()  # opened by a wake; may be open, or open once more, from an earlier one
        self.gate.acquire()
        os_threads.add(self)

    @property
    def name(self) -> str:  # type: ignore[override]
        thread = threading._active.get(self.ident)  # type: ignore[attr-defined]
        return thread.name if thread is not None else f"thread {self.ident}"

    def __repr__(self) -> str:
        return f"<OSThread {self.name} {'WAITING ' + self.parked[0] if self.parked else 'RUNNING'}>"

    def park(self, timeout: float | None = None) -> Any:
        """Block until woken. What a signal handler raises meanwhile ends the park, unless a waker was faster.

        Then nothing handed over is lost, and the error comes at the next park, as a cancel would. Where the park must
        not end, for a lock after ``Condition.wait``, a second error ends it by force.
        """
        late = False
        while not (self.woken or late):
            try:
                late = not self.block(timeout) and self.retracted()
                timeout = None  # woken, or about to be
            except BaseException as raised:  # KeyboardInterrupt, in the main thread
                if self.retracted():
                    raise
                if not (self.pending and self.unpark(error=raised)):
                    self.pending.append(raised)
        if late:
            raise TimeoutError("timed out")
        self.woken = False
        if self.fault is not None:
            self.throw_fault()
        value, self.value = self.value, None
        return value

    def block(self, timeout: float | None) -> bool:
        """Block until woken; False after ``timeout`` seconds."""
        if timeout is None:
            return self.block_for_good()
        deadline = originals.monotonic() + timeout
        while not self.woken:
            left = deadline - originals.monotonic()
            if left <= 0:
                return False
            self.gate.acquire(timeout=min(left, self.at_once))
        return True

    def block_for_good(self) -> bool:
        try:
            deadlock.block(self)
            while not self.woken:
                self.gate.acquire(timeout=self.at_once)
        finally:
            deadlock.unblock(self)
        return True

    def retracted(self) -> bool:
        """End the park from within; False if a waker has won, whose wake is then to be awaited."""
        if not self.taken_off():
            return False
        try:
            self.parked.pop()
        except IndexError:
            return False
        return True

    def unpark(self, value: Any = None, error: BaseException | None = None) -> bool:
        try:
            del self.parked[0]  # no call, so that no signal handler comes between here and the mark
        except IndexError:
            return False
        self.value, self.fault = value, error
        self.woken = True
        try:
            self.gate.release()
        except RuntimeError:  # it is open still
            pass
        return True


os_threads: weakref.WeakSet[OSThread] = weakref.WeakSet()
"""All of them: in a forked child nobody waits there any more."""


class Here(originals.local):
    """What the kernel knows of the OS thread it is called in."""

    main: Any = None  # the Main of this thread, once its main code has met a scheduler
    guest: Any = None  # the Scheduler on the loop of somebody else that runs in this thread
    thread: OSThread | None = None
    end: Any = None  # what is dropped, and so acts, when the thread ends


here = Here()


def this_waiter() -> Waiter:
    """Return who is running: a dhaga, the main code of a scheduler's thread, or a plain OS thread.

    Parks: never. Raises: ParkError where parking cannot work.
    """
    me = getcurrent()
    return me if isinstance(me, Waiter) else outsider(me)


def outsider(me: Any) -> Waiter:
    if _get_running_loop() is not None:
        raise ParkError(
            "this call would have to park, but it was made from the event loop itself (a coroutine, a callback or a "
            "handler): in a coroutine await an asynchronous version of it, or await dhaga.aio.run_in_dhaga(fn, ...), "
            "which makes the call in a dhaga; in a callback make it in a dhaga, too: dhaga.spawn(fn, ...)"
        )
    main = here.main
    if main is not None:
        if main.greenlet is not me:
            raise ParkError("a foreign greenlet cannot park among dhagas: make the call in dhaga.spawn(...) instead")
        return main  # type: ignore[no-any-return]
    if here.thread is None:
        here.thread = OSThread()
        me.name = here.thread.name
    return here.thread


def name_of(holder: Any) -> str:
    """Name whoever holds something: a dhaga, or the greenlet that stands for main code or a plain thread."""
    return getattr(holder, "name", "a plain thread")


class WaitQueue(deque[Waiter]):
    """Everybody who waits for one thing, first come, first served.

    ``reason`` is what each of them shows in a dump; ``closed``: there is nothing to wait for any more, so that
    whoever still comes is to be served at once.
    """

    __slots__ = ("closed", "reason", "whose")

    def __init__(self, owner: object, reason: str) -> None:
        super().__init__()
        self.whose = weakref.ref(owner)  # no cycle: a lock is to go with its last reference
        self.reason = reason
        self.closed = False

    @property
    def owner(self) -> object:
        """The thing they wait for: a lock, a queue, …"""
        return self.whose()

    def wait(self, stock: object, serve: Callable[[], object], timeout: float | None = None) -> Any:
        """Queue up and park until served.

        If there is something in ``stock`` now, ``serve()`` hands it to whoever is first: that closes the race with a
        waker in another OS thread that looked at the empty queue just before. Returns and raises what ``Waiter.park``
        does.
        """
        me: Any = getcurrent()
        try:
            pending = me.pending
        except AttributeError:  # not a dhaga
            return self.wait_outside(outsider(me), stock, serve, timeout)
        if pending:  # prepare() and park(), written out: 15 % of a contended lock
            raise pending.pop(0)
        me.place = self
        me.parked.append(self.reason)
        self.append(me)
        if stock or self.closed:
            serve()
        if timeout is None:
            return me.scheduler.park(me)
        return me.park(timeout)

    def wait_outside(self, me: Waiter, stock: object, serve: Callable[[], object], timeout: float | None) -> Any:
        me.prepare(self.reason, self)
        self.append(me)
        if stock or self.closed:
            serve()
        return me.park(timeout)

    def wait_bound(self, serve: Callable[[], object]) -> Any:
        """Queue up and park until served, whatever cancels and timeouts say meanwhile."""
        me = this_waiter()
        me.place = BOUND
        me.parked.append(self.reason)
        self.append(me)
        serve()
        return me.park()

    def wake_first(self, value: Any = True) -> Waiter | None:
        """Wake the first one that still waits; None if nobody does."""
        while self:
            try:
                waiter = self.popleft()
            except IndexError:  # another OS thread took the last one
                break
            if waiter.unpark(value):
                return waiter
        return None

    def wake_all(self, value: Any = True) -> None:
        """Wake everybody who waits now."""
        while self:
            try:
                waiter = self.popleft()
            except IndexError:  # another OS thread took the last one
                return
            waiter.unpark(value)
