"""What several wait for together: Event and Barrier. For the lines marked ``one step`` see ``locks.py``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from threading import BrokenBarrierError
from typing import Any

from greenlet import getcurrent

from .kernel.waiting import WaitQueue, outsider
from .locks import Condition, Lock


class Event:
    """A flag to wait for. Source: ``threading.Event``; ``set`` may be called from signal handlers and finalizers.

    Each ``set`` takes the whole queue away and wakes it. Whoever comes back meanwhile, in another OS thread, waits for
    the next ``set`` in another queue.
    """

    def __init__(self) -> None:
        self.flag = False
        self.waiters = WaitQueue(self, "event.wait")
        self.spare: WaitQueue | None = None  # an empty queue for the next set: a new one costs as much as a switch

    def __repr__(self) -> str:
        return f"<Event {'set' if self.flag else 'unset'}, {len(self.waiters)} parked>"

    def is_set(self) -> bool:
        """Tell whether the flag is set."""
        return self.flag

    def isSet(self) -> bool:
        """Tell whether the flag is set. Source: deprecated, in threading as well."""
        warnings.warn("isSet() is deprecated, use is_set() instead", DeprecationWarning, stacklevel=2)
        return self.flag

    def set(self) -> None:
        """Set the flag and wake everybody who waits for it."""
        if not self.waiters: self.flag = True; return  # one step  # fmt: skip  # noqa: E701, E702
        empty, self.spare = self.spare, None  # one step
        if empty is None:
            empty = WaitQueue(self, "event.wait")
        self.flag, former, self.waiters = True, self.waiters, empty  # one step
        while former:
            try:
                waiter = former.popleft()
            except IndexError:  # the timeout of the last one, in another OS thread
                break
            waiter.unpark(True)
        self.spare = former

    def clear(self) -> None:
        """Unset the flag: who waits from now on parks."""
        self.flag = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag. Parks: while it is unset (``event.wait``). Returns: False after ``timeout`` seconds."""
        if self.flag:
            return True
        if timeout is not None and timeout <= 0:
            return False
        me: Any = getcurrent()
        queue = self.waiters
        try:
            scheduler = me.scheduler
        except AttributeError:  # not a dhaga
            me, scheduler = outsider(me), None
        if me.pending:  # prepare(), written out, as park() is below: 15 % of a wait
            raise me.pending.pop(0)
        me.place = queue
        me.parked.append("event.wait")
        if queue is self.waiters and not self.flag: queue.append(me)  # one step  # fmt: skip  # noqa: E701
        else:
            me.unpark(True)  # it was set just now
        if timeout is None and scheduler is not None:
            scheduler.park(me)
            return True
        try:
            me.park(timeout)
        except TimeoutError:
            return False
        return True

    def _at_fork_reinit(self) -> None:
        self.waiters = WaitQueue(self, "event.wait")


class Round:
    """One filling of a barrier: how many have come, and what became of it."""

    __slots__ = ("arrived", "broken", "open")

    def __init__(self) -> None:
        self.arrived = 0
        self.open = self.broken = False


class Barrier:
    """Let a number of dhagas and threads wait for each other. Source: ``threading.Barrier``.

    A wait that ends by a timeout, a cancel or an error breaks the barrier for the others, who get BrokenBarrierError.
    """

    def __init__(self, parties: int, action: Callable[[], object] | None = None, timeout: float | None = None) -> None:
        if parties < 1:
            raise ValueError("parties must be > 0")
        self.parties = parties
        self.action = action
        self.timeout = timeout
        self.changed = Condition(Lock())
        self.changed.waiters = WaitQueue(self, "barrier.wait")  # so a dump names the barrier
        self.round = Round()

    def __repr__(self) -> str:
        return f"<Barrier {'broken' if self.broken else f'{self.n_waiting} of {self.parties} parked'}>"

    @property
    def broken(self) -> bool:
        """Whether the barrier is broken; ``reset`` mends it."""
        return self.round.broken

    @property
    def n_waiting(self) -> int:
        """How many wait now."""
        return self.round.arrived

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all have come. Parks: ``barrier.wait``. Returns: a different index from 0 up for each.

        Raises: BrokenBarrierError, also for the one whose ``timeout`` (default: the barrier's) ends it.
        """
        with self.changed:
            here = self.round
            if here.broken:
                raise BrokenBarrierError
            index = here.arrived
            here.arrived += 1
            try:
                if here.arrived == self.parties:
                    self.open_up(here)
                else:
                    self.await_others(here, self.timeout if timeout is None else timeout)
            except BaseException:
                self.break_round(here)
                raise
            return index

    def open_up(self, here: Round) -> None:
        if self.action is not None:
            self.action()
        here.open = True
        self.round = Round()
        self.changed.notify_all()

    def await_others(self, here: Round, timeout: float | None) -> None:
        if not self.changed.wait_for(lambda: here.open or here.broken, timeout) or here.broken:
            raise BrokenBarrierError

    def break_round(self, here: Round) -> None:
        if not here.open and not here.broken:
            here.broken = True
            here.arrived = 0
            self.changed.notify_all()

    def reset(self) -> None:
        """Make the barrier new; those that wait get BrokenBarrierError."""
        with self.changed:
            former, self.round = self.round, Round()
            if former.arrived:
                self.break_round(former)

    def abort(self) -> None:
        """Break the barrier: all that wait, or will before a ``reset``, get BrokenBarrierError."""
        with self.changed:
            self.break_round(self.round)
