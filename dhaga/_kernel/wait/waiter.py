"""The waiter: the base class of everything that can park. It has the methods to park and to wake.

A wait has two halves. ``prepare_park(reason, target)`` marks the waiter as parked: from then on a wake counts. The
waiter then joins a queue, in which wakers find it. Next the waiter checks once more whether it must wait, and calls
``park_until_woken()``. In this order, wakes from other OS threads are safe without a lock.
``parked`` is the ticket of the park: a list, new for each park, that holds the waiter while it is parked. Taking the
waiter out of the ticket is atomic and decides which wake wins. The first wake takes the waiter, sets the waiter's value
or error, and appends the waiter to its run queue. Every later wake gets IndexError and does nothing. A wake never
switches.
A timeout or a cancel first undoes the park: ``wait_target._remove(waiter)`` removes the waiter from its place. If the
removal fails, or the ticket is void after the removal, a waker has already taken the waiter. In that case a timeout is
too late, and a cancel stays pending until the next park. So no handed-over value is ever lost.
There are three kinds of waiters, besides the waiter of a finalizer (``inner_waiter.py``). A dhaga (``microthread.py``)
and the main code of a thread (``main_code.py``) are switched. A plain OS thread (``thread_waiter.py``) blocks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .. import hooks
from .cancellation import PendingErrors, ScopeCancel, pending_errors_of

if TYPE_CHECKING:
    from ..run.run_queues import Priority
    from ..run.scheduler import Scheduler
    from ..run.timers import Entry


class WaitTarget(Protocol):
    """The place of a waiter while it is parked. Undoing the park removes the waiter from this place.

    If ``for_all`` is true, any code may wake the waiter; otherwise only code that hands something over to the waiter
    may do so.
    """

    def _remove(self, waiter: Any, /) -> object:
        """Remove the waiter. ValueError or False means that a waker has already taken the waiter."""


logger = logging.getLogger("dhaga")


class TimedOut:
    """The result of a park that its own timeout has ended. This result is not an error, because a park may also raise a
    TimeoutError of other code.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMED_OUT"


class NotCancellable:
    """Target of a wait that cannot be undone: timeouts are ignored, and a cancel stays pending until the next park."""

    __slots__ = ()

    def _remove(self, waiter: object) -> bool:
        return False


class SleepTarget:
    """Target of a sleep. A sleeping waiter is in no queue, and the end of a sleep is a wake, not an error."""

    __slots__ = ()
    for_all = True

    def _remove(self, waiter: object) -> bool:
        return True


class YieldTarget:
    """Target of a yield: the waiter is not parked but in its run queue, so nothing can end the yield earlier."""

    __slots__ = ()

    def _remove(self, waiter: object) -> bool:
        return False


# These objects are compared by identity.
TIMED_OUT = TimedOut()
NOT_CANCELLABLE = NotCancellable()
SLEEPING = SleepTarget()
YIELDING = YieldTarget()


def claim(ticket: list[Any]) -> bool:
    """Remove the waiter from its ticket. Returns: False if the ticket is already void."""
    try:
        del ticket[0]
    except IndexError:
        return False
    return True


class Waiter:
    """Base class of everything that can park, with the methods to park and to wake."""

    # mypy would apply these empty slots to the subclasses.
    if not TYPE_CHECKING:
        __slots__ = ()

    name: str
    ident: int
    scheduler: Scheduler
    # The queue to which a wake appends this waiter: the run queue, or the queue of another priority.
    wake_queue: Any
    own_priority: Priority
    # The ticket of the park: a list, new for each park, that holds this waiter. Taking the waiter out is atomic and
    # decides which wake wins. Wait queues hold tickets instead of waiters: a waiter that leaves makes its ticket void,
    # without a search of the queue.
    parked: list[Any]
    # The reason of the present park, or of the last park.
    park_reason: str
    # The target of the present park. The end of the park sets it to None.
    wait_target: WaitTarget | None
    # While the waiter is parked: the item that its ``put`` adds, or the queue of an uncancellable wait. After the wake:
    # the wake's value.
    _value: Any
    _error: BaseException | None
    # The time when the last park began, by the scheduler's clock. A dhaga stores the time of its scheduler's next poll
    # instead, because reading the clock at each park would cost 45 ns.
    parked_since: float
    # In a lock's queue: the queue's ``epoch`` at this waiter's arrival. Earlier waiters are served first.
    arrival: int
    # Cancels and expired Timeouts that are not yet raised. Before the first of them this attribute is an empty tuple,
    # because a list in each dhaga would take 56 bytes; see ``pending_errors_of``.
    pending_errors: PendingErrors

    def _init_wait(self) -> None:
        """Set the fields of a waiter that has never parked. A dhaga sets the same fields in its own ``__init__``."""
        self.parked = []
        self.park_reason = ""
        self.pending_errors = ()  # type: ignore[assignment]
        self.wait_target = None
        self._value = None
        self._error = None
        self.parked_since = 0.0

    @property
    def priority(self) -> Priority:
        """HIGH, NORMAL or LOW; see ``dhaga.priority``."""
        return self.own_priority

    def _assign_to(self, scheduler: Scheduler, priority: Priority) -> None:
        """Assign this waiter to a scheduler and priority, from the next wake on."""
        self.wake_queue = scheduler._queue_of(priority)
        self.scheduler = scheduler
        self.own_priority = priority

    def prepare_park(self, reason: str, target: WaitTarget | None = None) -> None:
        """Mark this waiter as parked, without switching yet. If an error is pending, raise it instead.

        Raises: Cancelled, Expired.
        """
        if self.pending_errors:
            self._throw_error(self.pending_errors.pop(0))
        # Before 3.12 this may collect garbage. If the target were set, a finalizer's is_woken() would clear it.
        ticket = [self]
        # The ticket is set last, because from then on a timeout or a cancel may use the target.
        self.wait_target = target
        self.park_reason = reason
        self.parked = ticket

    def prepare_uncancellable(self, reason: str, target: WaitTarget = NOT_CANCELLABLE) -> None:
        """Mark this waiter as parked as ``prepare_park`` does, but keep a pending cancel pending.

        As long as timeouts and cancels must not end the park, the ``target`` must refuse to remove the waiter.
        """
        ticket = [self]  # made first, as in prepare_park
        self.wait_target = target
        self.park_reason = reason
        self.parked = ticket

    def park_until_woken(self, timeout: float | None = None) -> Any:
        """Switch away until this waiter is woken.

        Parks: until woken, at most for ``timeout`` seconds. From: the waiter itself, after ``prepare_park``. Returns:
        the waker's value. Raises: the waker's error, TimeoutError, Cancelled.
        """
        value = self.park_within(timeout)
        if value is TIMED_OUT:
            raise TimeoutError("timed out")
        return value

    def park_within(self, timeout: float | None) -> Any:
        """Park as ``park_until_woken`` does. Returns: the waker's value; TIMED_OUT after ``timeout`` seconds.

        So a TimeoutError always comes from a waker or a signal handler, never from this park's own timeout.
        """
        if timeout is None:
            return self.scheduler._park(self)
        scheduler = self.scheduler
        entry: Entry = scheduler.timers.add(scheduler.clock() + timeout, self)
        try:
            return scheduler._park(self)
        finally:
            scheduler.timers.discard(entry)

    def _take_target(self) -> WaitTarget | None:
        """Return the target of the park that has ended, and remove the reference to it."""
        target, self.wait_target = self.wait_target, None
        return target

    def _take_value(self) -> Any:
        """Return the value of the wake that has ended the park, or raise its error."""
        if self._error is not None:
            self._throw_error()
        value, self._value = self._value, None
        return value

    def _throw_error(self, error: BaseException | None = None) -> NoReturn:
        """Raise ``error``, or by default the error with which this waiter was woken."""
        if error is None:
            error, self._error = self._error, None
            assert error is not None
        on_park_error = hooks.on_park_error
        if on_park_error is not None:
            on_park_error(self, error)
        try:
            raise error
        finally:
            # The error's traceback refers to this frame, so a local variable for the error would make a cycle.
            del error

    def wake(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Make a waiter in ``dhaga.park``, or in a sleep, runnable: its park returns ``value`` or raises ``error``.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if the waiter is not parked or another
        wake won. Raises: RuntimeError if the waiter waits for an object that hands something over, such as a lock.
        """
        # The ticket is read first: if the waiter parks again meanwhile, in another OS thread, this ticket is void.
        ticket = self.parked
        target = self.wait_target
        if target is not None and ticket and not getattr(target, "for_all", False):
            raise RuntimeError(
                f"{self!r} cannot be released by wake(), because it waits for an object that hands something over:\n"
                "to end the wait, cancel(); to wait for a wake(), dhaga.park()"
            )
        return self.wake_from(ticket, value, error)

    def wake_from(self, ticket: list[Any], value: Any = None, error: BaseException | None = None) -> bool:
        """Wake this waiter from the park with this ticket. Returns: False if another wake was faster.

        The caller has read the ticket earlier. In the meantime a ``Condition.notify`` in another OS thread may have
        moved the waiter to the lock, for a new park with another ticket.
        """
        if not claim(ticket):
            return False
        self.deliver_wake(value, error)
        return True

    def wake_parked(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Wake this waiter as ``wake`` does. From: the object that has removed this waiter from its queue."""
        try:
            # This statement is one bytecode, and is 40 % cheaper than pop(). If two threads wake this waiter at the
            # same time, the second gets IndexError.
            del self.parked[0]
        except IndexError:
            return False
        self.deliver_wake(value, error)
        return True

    def deliver_wake(self, value: Any = None, error: BaseException | None = None) -> None:
        """Make this waiter runnable. From: the waker that has taken this waiter out of its ticket."""
        # The hook is read once, because another OS thread may remove the listener.
        on_wake = hooks.on_wake
        if on_wake is not None:
            on_wake(self)
        self._value = value
        if error is not None:
            self._error = error
        # Value and error are set before the append, because after the append the scheduler may run this waiter in
        # another thread.
        self.wake_queue.append(self)
        scheduler = self.scheduler
        # The scheduler sets this flag and then checks its queue again. So either the waker sees the flag, or the
        # scheduler sees the entry.
        if scheduler.asleep:
            scheduler.wake_loop()

    @property
    def wait_timed_out(self) -> bool:
        """Whether the last park has ended by its timeout. Valid until the waiter runs again."""
        return self._value is TIMED_OUT

    def _expire(self) -> None:
        """End the park by its own timeout. Do nothing if a waker was faster."""
        self._end_park(TIMED_OUT)

    def time_out_park(self) -> None:
        """Raise TimeoutError at a park that has no timeout of its own. Do nothing if a waker was faster."""
        self._end_park(None, TimeoutError("timed out"))

    def _end_park(self, value: object, error: BaseException | None = None) -> None:
        """Undo the park and wake the waiter. For a sleeping waiter this is the normal end of its sleep."""
        if self.wait_target is SLEEPING:
            self.wake_parked()
        elif (ticket := self.parked) and self.undo_park():
            self.wake_from(ticket, value, error)

    def cancel_with(self, error: BaseException) -> None:
        """Raise ``error`` at this park if the park can still be undone, else at the next park that no shield covers."""
        pending = self.pending_errors
        shielded = isinstance(pending, PendingErrors) and pending.holds_off(error)
        ticket = self.parked
        if ticket and not shielded and self.undo_park() and self.wake_from(ticket, error=error):
            return
        # The error stays pending: a wake was faster, the waiter is not parked, or a shield holds the error off.
        pending_errors_of(self).append(error)

    def cancel_by_scope(self, scope_cancel: ScopeCancel) -> None:
        """Raise a scope's cancel at this park, if the park can still be undone, and at each later park."""
        pending = pending_errors_of(self)
        pending.append(scope_cancel)
        ticket = self.parked
        if ticket and not pending.holds_off(scope_cancel) and self.undo_park():
            self.wake_from(ticket, error=scope_cancel.error())

    def park_on(self, queue: Any, arrival: int | None = None) -> None:
        """Join a queue for a wait that neither a timeout nor a cancel ends.

        With an ``arrival``, join a lock's queue before all waiters of the same or a later epoch; without, join at the
        end. From: the waiter itself, or a waker that has taken the waiter out of its ticket, as ``Condition.notify``
        does.
        """
        # The queue is stored here for main code, which leaves the queue to run signal handlers, and then joins it
        # again.
        self._value = queue
        self.prepare_uncancellable(queue.reason)
        if arrival is None:
            self.arrival = queue.epoch
            queue.append(self.parked)
        else:
            self.arrival = arrival
            queue.insert_by_arrival(self.parked, arrival)

    def undo_park(self) -> bool:
        """Undo the park. Returns: False if a waker came first."""
        if self.wait_target is None:
            return True
        try:
            return self.wait_target._remove(self) is not False
        except ValueError:
            return False
        except Exception:
            # A user's undo function failed. Without a wake the waiter would hang.
            logger.exception("the undo of %r failed; it is woken nevertheless", self)
            return True

    @property
    def waits_on(self) -> object:
        """The object that this waiter waits for: its target or the target's owner. None if there is no such object."""
        if not self.parked or self.wait_target is SLEEPING or self.wait_target is NOT_CANCELLABLE:
            return None
        return getattr(self.wait_target, "owner", self.wait_target)
