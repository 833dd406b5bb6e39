"""The waiter: whoever can park. This is the face that wakers see, and the wait of those whom a scheduler switches.

A wait has two halves. ``prepare(reason, place)`` marks the waiter as parked: from then on a wake counts. The waiter
then puts itself where its waker will find it, looks once more whether what it wants has come meanwhile, and calls
``park()``. That order is what makes wakes from other OS threads safe without a lock around it.

Three kinds share this face: a dhaga and the main code of a thread (``microthread.py``), which are switched, and a plain
OS thread, which blocks for real (``osthread.py``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .cancels import Cancels, Order, cancels_of

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
    ident: int
    scheduler: Scheduler
    queue: Any  # what a wake appends to: the run queue, or that of another priority
    rank: Priority
    parked: list[str]  # holds the reason while parked; taking it out is the atomic claim that decides which wake wins
    place: Place | None
    value: Any
    fault: BaseException | None
    since: float  # when its last park began, by its scheduler's clock; of a dhaga when the next glance was due then
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
