"""Locks: Lock, RLock, and the Condition that goes with either. Other primitives: ``semaphores.py`` and ``events.py``.

Each holds for dhagas of any scheduler and for plain OS threads together, hands over what it guards (first come,
first served), and needs no lock of its own. Whoever finds it taken queues up, then looks once more (``serve``), which
closes the race with a release in another OS thread.

*One step.* CPython lets another thread in only at the start of a function, at a jump backward and after a call. So a
line without a call, or with one call of a C function at its end, is one step, of which nobody sees the middle:
``if self.holder is None: self.holder = me``. Such lines are marked, here and in the other files of primitives, and
``tests/test_steps.py`` looks at their bytecode. A token taken out of a deque would do as well, at 30 % more for a
``with lock``.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from .kernel import originals
from .kernel.osthread import OSThread
from .kernel.waiter import Waiter
from .kernel.waiting import WaitQueue, name_of, outsider, this_waiter
from .scope import shield


def check_timeout(blocking: bool, timeout: float | None) -> float | None:
    """Return the timeout of an ``acquire``, None: for ever. Raises: ValueError, OverflowError, as the standard does."""
    if timeout is None or timeout == -1:
        return None
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    if timeout > originals.TIMEOUT_MAX:
        raise OverflowError("timeout value is too large")
    return timeout


class Token:
    """What one at a time can hold, handed on to the first that waits for it: the part that Lock and RLock share.

    ``holder`` is a dhaga, or the greenlet of other code; after a hand-over to other code its waiter.
    """

    __slots__ = ("__weakref__", "holder", "waiters")

    def __init__(self) -> None:
        self.holder: Any = None
        self.waiters = WaitQueue(self, "lock.acquire")

    def locked(self) -> bool:
        """Tell whether somebody holds the lock."""
        return self.holder is not None

    def queue_up(self, me: Any, timeout: float | None) -> bool:
        """Park until the lock is handed over; False after ``timeout`` seconds."""
        waiters = self.waiters
        try:
            scheduler = me.scheduler
        except AttributeError:  # not a dhaga
            me, scheduler = outsider(me), None
        if me.pending:  # prepare(), written out, as park() is below: 15 % of a contended lock
            raise me.pending.pop(0)
        me.place = waiters
        me.parked.append(waiters.reason)
        waiters.append(me)
        if self.holder is None:
            self.serve()
        if timeout is None and scheduler is not None:
            scheduler.park(me)
            return True
        try:
            me.park(timeout)
        except TimeoutError:
            return False
        return True

    def serve(self) -> None:
        """Hand the lock to the first that waits, if it is free."""
        while self.waiters:
            if self.holder is None: self.holder = self  # one step  # fmt: skip  # noqa: E701
            else:
                return  # who holds it looks after the others
            if self.hand_on():
                return
            self.holder = None

    def leave_free(self) -> None:
        """Leave the lock to whoever comes: the last one that waited has just given up."""
        self.holder = None
        self.serve()

    def hand_on(self) -> bool:
        """Give the lock to the first that waits; False if nobody does."""
        while self.waiters:
            try:
                heir = self.waiters.popleft()
            except IndexError:  # the timeout of the last one, in another OS thread
                break
            self.holder = heir
            if heir.unpark(True):
                return True
        return False

    def take_back(self) -> None:
        """Take the lock whatever timeouts and cancels say: it must be held again before they can be told."""
        me = getcurrent()
        if self.holder is None: self.holder = me  # one step  # fmt: skip  # noqa: E701
        else:
            self.waiters.wait_bound(self.serve)


class Lock(Token):
    """A mutual exclusion lock. Source: ``threading.Lock``; besides, its repr says who holds it."""

    __slots__ = ()

    def __repr__(self) -> str:
        held = "unlocked" if self.holder is None else f"held by {name_of(self.holder)}"
        return f"<Lock {held}, {len(self.waiters)} parked>"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock. Parks: while somebody holds it (``lock.acquire``). Returns: whether it was taken."""
        wait = None if timeout == -1 else check_timeout(blocking, timeout)
        me = getcurrent()
        if self.holder is None: self.holder = me; return True  # one step  # fmt: skip  # noqa: E701, E702
        return bool(blocking and wait != 0 and self.queue_up(me, wait))

    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Give the lock to the first that waits for it. From: anybody. Raises: RuntimeError if it is unlocked."""
        if self.holder is not None and not self.waiters: self.holder = None; return  # one step  # fmt: skip  # noqa: E701, E702
        if self.holder is None:
            raise RuntimeError("release unlocked lock")
        if not self.hand_on():
            self.leave_free()

    def __enter__(self) -> bool:
        me = getcurrent()
        if self.holder is None: self.holder = me; return True  # one step  # fmt: skip  # noqa: E701, E702
        return self.queue_up(me, None)

    __exit__ = release  # a call less in each `with`, hence the arguments
    acquire_lock, release_lock, locked_lock = acquire, release, Token.locked

    # what Condition needs of a lock

    def _is_owned(self) -> bool:
        return self.holder is not None

    def _release_save(self) -> None:
        self.release()

    def _acquire_restore(self, state: Any) -> None:
        self.take_back()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class RLock(Token):
    """A lock that its holder may take again. Source: ``threading.RLock``; holders are dhagas or threads."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __repr__(self) -> str:
        held = "unlocked" if self.holder is None else f"held by {name_of(self.holder)} {self.count} times"
        return f"<RLock {held}, {len(self.waiters)} parked>"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, or once more if the caller holds it. Parks: while somebody else does (``lock.acquire``)."""
        wait = None if timeout == -1 else check_timeout(blocking, timeout)
        me = getcurrent()
        if self.holder is me:
            self.count += 1
            return True
        if self.holder is None: self.holder = me  # one step  # fmt: skip  # noqa: E701
        elif blocking and wait != 0 and self.queue_up(me, wait):
            self.holder = me  # the greenlet, instead of the waiter
        else:
            return False
        self.count = 1
        return True

    def release(self, kind: object = None, error: object = None, trace: object = None) -> None:
        """Undo one acquire; the last one hands the lock on. Raises: RuntimeError for whoever does not hold it."""
        if self.holder is not getcurrent():
            raise RuntimeError("cannot release un-acquired lock")
        if self.count > 1:
            self.count -= 1
            return
        if not self.waiters: self.holder = None; return  # one step  # fmt: skip  # noqa: E701, E702
        if not self.hand_on():
            self.leave_free()

    def __enter__(self) -> bool:
        me = getcurrent()
        if self.holder is None: self.holder = me; self.count = 1; return True  # one step  # fmt: skip  # noqa: E701, E702
        return self.acquire()

    __exit__ = release

    # what Condition needs of a lock

    def _is_owned(self) -> bool:
        return self.holder is getcurrent()

    def _recursion_count(self) -> int:
        return self.count if self._is_owned() else 0

    def _release_save(self) -> int:
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        count, self.count = self.count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self.take_back()
        self.regain(count)

    def regain(self, count: int) -> None:
        """Be the holder again, as often as before a wait."""
        self.holder = getcurrent()
        self.count = count

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]


class Condition:
    """Wait for a change of what a lock guards. Source: ``threading.Condition``.

    ``notify`` moves sleepers to the queue of the lock, still parked: they run once they own it. Where the lock is of
    another kind, each sleeper waits for a gate of its own, and then takes the lock back by itself.
    """

    def __init__(self, lock: Any = None) -> None:
        self._lock = RLock() if lock is None else lock
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self.token: Token | None = self._lock if isinstance(self._lock, Token) else None
        self.waiters = WaitQueue(self, "condition.wait")
        self.gates: deque[Lock] = deque()  # instead of the waiters, if the lock is of another kind
        for name in ("_release_save", "_acquire_restore", "_is_owned", "_recursion_count"):
            if hasattr(self._lock, name):
                setattr(self, name, getattr(self._lock, name))

    def __repr__(self) -> str:
        return f"<Condition on {self._lock!r}, {len(self.waiters) or len(self.gates)} parked>"

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *args: Any) -> Any:
        return self._lock.__exit__(*args)

    def _release_save(self) -> Any:
        self._lock.release()

    def _acquire_restore(self, state: Any) -> None:
        if isinstance(this_waiter(), OSThread):  # nobody cancels one
            self.insist()
        else:
            with shield():
                self.insist()

    def insist(self) -> None:
        """Take the lock; a Ctrl-C is for the next park, unless it comes again."""
        try:
            self._lock.acquire()
        except KeyboardInterrupt as error:
            self._lock.acquire()
            this_waiter().interrupt(error)

    def _at_fork_reinit(self) -> None:
        self._lock._at_fork_reinit()
        self.waiters.clear()
        self.gates.clear()

    def _is_owned(self) -> bool:
        if self._lock.acquire(False):
            self._lock.release()
            return False
        return True

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for a notify, take the lock again.

        Parks: until notified (``condition.wait``), then for the lock. Returns: False after ``timeout`` seconds without
        a notify. Raises: RuntimeError unless the caller holds the lock; Cancelled, the lock being held again.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        if timeout is not None and timeout <= 0:
            self._acquire_restore(self._release_save())
            return False
        if self.token is None:
            return self.wait_at_gate(timeout)
        me = this_waiter()
        me.prepare(self.waiters.reason, self.waiters)
        self.waiters.append(me)
        saved = self._release_save()
        try:
            me.park(timeout)
        except BaseException as error:
            self._acquire_restore(saved)
            if isinstance(error, TimeoutError):
                return False
            raise
        if saved is not None:  # an RLock, handed over by the notifier's release
            self.token.regain(saved)  # type: ignore[attr-defined]
        return True

    def wait_at_gate(self, timeout: float | None) -> bool:
        """Wait where nobody can hand the lock over: at a lock that the notifier opens."""
        me = this_waiter()
        if me.pending:  # later a cancel that finds the gate open stays pending
            raise me.pending.pop(0)
        gate = Lock()
        gate.acquire()
        self.gates.append(gate)
        saved = self._release_save()
        unheard = False
        try:
            return gate.acquire(timeout=-1 if timeout is None else timeout) or not self.left(gate)
        except BaseException:
            unheard = not self.left(gate)
            raise
        finally:
            self._acquire_restore(saved)
            if unheard:  # a notify that came just then is for somebody else
                self.notify()

    def left(self, gate: Lock) -> bool:
        """Leave before the notify; False if that has come."""
        try:
            self.gates.remove(gate)
        except ValueError:
            return False
        return True

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until ``predicate()`` is true, and return its value; after ``timeout`` seconds its last value."""
        result = predicate()
        if timeout is None:
            while not result:
                self.wait()
                result = predicate()
        elif not result:
            clock = clock_here()
            left, deadline = timeout, clock() + timeout
            while not result:
                self.wait(left)
                result = predicate()
                left = deadline - clock()
                if left <= 0:
                    break
        return result

    def notify(self, n: int = 1) -> None:
        """Have the first ``n`` that wait go on, each once it has the lock. Raises: RuntimeError without the lock."""
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        while n > 0 and (self.waiters or self.gates):
            try:
                n -= self.move_first() if self.token is not None else self.open_first()
            except IndexError:  # the last one's timeout was faster, in another OS thread
                return

    def move_first(self) -> bool:
        """Move the first sleeper to the lock's queue; False if it sleeps no more."""
        token, waiter = self.token, self.waiters.popleft()
        assert token is not None
        if not waiter.move(token.waiters.reason):
            return False
        token.waiters.append(waiter)
        if token.holder is None:  # a plain Lock that somebody released who does not hold it
            token.serve()
        return True

    def open_first(self) -> bool:
        self.gates.popleft().release()
        return True

    def notify_all(self) -> None:
        """Have everybody go on who waits now."""
        self.notify(len(self.waiters) or len(self.gates))

    def notifyAll(self) -> None:
        """Have everybody go on who waits now. Source: deprecated, in threading as well."""
        warnings.warn("notifyAll() is deprecated, use notify_all() instead", DeprecationWarning, stacklevel=2)
        self.notify_all()


def clock_here() -> Callable[[], float]:
    """Return the clock by which the timeouts of the caller are kept."""
    me: Waiter = this_waiter()
    return originals.monotonic if isinstance(me, OSThread) else me.scheduler.clock
