"""Scopes: dhagas that live and end within a block. Source: trio's nurseries and cancel scopes, in one.

A cancel of a scope stands (``kernel/cancels.py``): each park of its body and of its children raises ``Cancelled``,
until the block has ended; one that is swallowed comes again. Scopes within pass it on as it leaves them, ``shield()``
holds it off.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Self, TypeVar

from greenlet import GreenletExit, getcurrent

from .kernel import originals
from .kernel.api import current
from .kernel.cancels import Ban, Cancels, Order, cancels_of, origin
from .kernel.errors import Cancelled, Expired
from .kernel.microthread import Dhaga, Main, T
from .kernel.priorities import NORMAL, Priority
from .kernel.timers import Entry
from .kernel.waiting import this_waiter

number = itertools.count(1).__next__
R = TypeVar("R")


class Child(Dhaga[T]):
    """A dhaga of a scope, which waits for its end and is told its error."""

    __slots__ = ("scope",)

    scope: Scope

    def report(self, error: BaseException) -> None:
        """Bring an error to the scope; to whom it would belong without one, if a fork has left that in the parent."""
        if self.scope.awaits(self):
            self.scope.fail(self, error)
        else:
            super().report(error)

    def end(self) -> None:
        super().end()
        self.scope.leave(self)


class Scope:
    """A block that ends when the dhagas spawned in it have ended, all of them, whatever happens.

    An error of one cancels the others and the body, and comes out in an ``ExceptionGroup``; so do they end when the
    body fails, or is cancelled, or after ``timeout`` seconds, with TimeoutError (alone, if there is no other error).
    A child that is cancelled by itself is no error. A lone SystemExit or KeyboardInterrupt comes out as it is.
    ``cancelled_caught`` tells whether the cancel has cut anything short, ``expired`` whether the timeout was its cause.
    Parks: at the end of the block, while a child lives (``scope NAME``). From: a dhaga, main code. Raises: ValueError.
    """

    __slots__ = (
        "__weakref__",
        "cancel_called",
        "cancelled_caught",
        "children",
        "entered",
        "entry",
        "errors",
        "expired",
        "foreign",
        "leaving",
        "moves_on",
        "name",
        "number",
        "order",
        "parent",
        "timeout",
        "waiter",
    )

    def __init__(self, timeout: float | None = None, name: str | None = None) -> None:
        self.timeout = checked(timeout)
        self.name = name or str(number())
        self.moves_on = False
        self.entered = self.leaving = False
        self.cancel_called = self.expired = False
        self.cancelled_caught = False
        self.waiter: Dhaga | Main | None = None  # who runs the body, from its begin to the end of the block
        self.parent: Scope | None = None
        self.children: dict[Child, None] = {}
        self.errors: list[BaseException] = []
        self.foreign: BaseException | None = None  # a cancel, or an expiry, from outside
        self.order: Order | None = None
        self.entry: Entry | None = None
        self.number = -1

    def __repr__(self) -> str:
        if self.waiter is None:
            return f"<Scope {self.name} {'ended' if self.entered else 'not entered'}>"
        state = "expired" if self.expired else "cancelled" if self.cancel_called else "open"
        return f"<Scope {self.name} {state}, {len(self.children)} children>"

    def spawn(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        name: str | None = None,
        priority: Priority = NORMAL,
        context: Context | None = None,
        **kwargs: Any,
    ) -> Dhaga[R]:
        """Start a dhaga for which the block waits; the arguments are those of ``dhaga.spawn``. Its result is its own.

        Parks: never. From: the body, children and whatever else runs in the same OS thread, while the block has not
        ended. In a cancelled scope it ends without a start. Raises: TypeError, RuntimeError.
        """
        scheduler = self.here().scheduler
        child: Child[R] = Child(
            scheduler, fn, args, kwargs or None, name, getattr(self.waiter, "daemon", False), context, priority
        )
        child.scope = self
        if self.order is not None:
            child.obey(self.order)
        self.children[child] = None
        try:
            scheduler.admit(child)
        except BaseException:
            if child not in scheduler.live:
                del self.children[child]
            raise
        return child

    def here(self) -> Dhaga | Main:
        """Return who runs the body. Raises: RuntimeError for callers that must not use the scope."""
        waiter = self.waiter
        if waiter is None:
            raise RuntimeError(f"{self!r} takes no dhagas: spawn within its block, and before that has ended")
        elsewhere = getattr(getcurrent(), "scheduler", None) is not waiter.scheduler  # or main code, or a callback
        if elsewhere and waiter.scheduler.ident != originals.get_ident():
            raise RuntimeError(f"{self!r} lives in another OS thread: only cancel() may be called from this one")
        return waiter

    def cancel(self, reason: object = None) -> bool:
        """Cancel the children and the rest of the body; the block then ends without an error, if there is none.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if the block has ended already.
        Raises: RuntimeError before it is entered.
        """
        waiter = self.waiter
        if waiter is None:
            if not self.entered:
                raise RuntimeError(f"{self!r}: there is nothing to cancel before its block has begun")
            return False
        return waiter.scheduler.call(self.stop, reason)

    def stop(self, reason: object) -> None:
        """Do what ``cancel`` does, once, in the thread of the scope."""
        if self.cancel_called or self.waiter is None:
            return
        self.cancel_called = True
        self.order = Order(self, self.number, reason)
        if not self.leaving:
            self.waiter.obey(self.order)
        for child in list(self.children):
            child.obey(self.order)

    def expire(self) -> None:
        """Cancel for want of time, unless that has been done for another reason; called by the scheduler."""
        if not self.cancel_called:
            self.expired = True
            self.stop(f"not done within {self.timeout} s")

    # ---- children

    def awaits(self, child: Child) -> bool:
        """Tell whether the end of a child concerns anybody: not if the block has ended, or is in the parent process."""
        return self.waiter is not None and self.waiter.scheduler is child.scheduler

    def fail(self, child: Child, error: BaseException) -> None:
        """Take the error of a child. A cancel is none, whoever it came from."""
        if isinstance(error, (Cancelled, GreenletExit)):
            self.cancelled_caught |= getattr(error, "scope", None) is self
        else:
            self.errors.append(error)
            self.stop(f"{child.name} failed")

    def leave(self, child: Child) -> None:
        """Let a child go that has ended."""
        self.children.pop(child, None)
        if self.leaving and not self.children and self.waiter is not None:
            self.waiter.unpark()

    # ---- the block

    def __enter__(self) -> Self:
        if self.entered:
            raise RuntimeError(f"{self!r} is entered already or was used before: make one for each block")
        me = current()
        scopes = cancels_of(me).scopes
        self.parent = scopes[-1] if scopes else getattr(me, "scope", None)
        timers = me.scheduler.timers
        if self.timeout is not None and self.timeout < math.inf:
            self.entry = timers.add(me.scheduler.clock() + self.timeout, self)
        self.number = timers.sequence() if self.entry is None else self.entry[1]
        self.entered = True
        self.waiter = me
        scopes.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        waiter = self.leaver()
        try:
            if error is not None:
                self.take(error)
            self.wait_for_children(waiter)
            self.close(waiter)
            return self.tell(waiter, error)
        finally:
            self.errors, self.foreign = [], None
            del error, self  # tracebacks lead to this frame: that would be a cycle

    def leaver(self) -> Dhaga | Main:
        """Return who runs the body, which is to be the caller. Raises: RuntimeError if it is not."""
        waiter, me = self.waiter, getcurrent()
        if waiter is None:
            raise RuntimeError(f"{self!r} cannot be left: nobody is in its block")
        if me is not waiter and me is not getattr(waiter, "greenlet", None):
            self.cancel("it was left by somebody else")
            raise RuntimeError(f"{self!r} is left by somebody else, and cancelled: it was entered by {waiter!r}")
        self.leaving = True
        cancels = cancels_of(waiter)
        if self.order is not None:
            cancels.drop(self.order)
        if cancels.scopes[-1] is not self:
            self.take(RuntimeError(f"{self!r} is left before {cancels.scopes[-1]!r}, which was entered later"))
        return waiter

    def take(self, error: BaseException) -> None:
        """Note what ends the body, and cancel the children."""
        if isinstance(error, (Cancelled, Expired)):
            if getattr(error, "scope", None) is self:
                self.cancelled_caught = True
            else:
                self.foreign = error
        elif not self.knows(error):
            self.errors.insert(0, error)
        self.stop("its body has ended early")

    def knows(self, error: BaseException) -> bool:
        """Tell whether an error is noted: a child's result() may have raised it, and Ctrl-C come again."""
        kind = KeyboardInterrupt
        return any(error is other or (isinstance(error, kind) and isinstance(other, kind)) for other in self.errors)

    def wait_for_children(self, waiter: Dhaga | Main) -> None:
        """Park until the last child has ended. What strikes meanwhile cancels them, and once they are, is for later."""
        for child in list(self.children):
            if child.done:  # it has stayed in the parent process
                del self.children[child]
        while self.children:
            try:
                if not self.cancel_called:
                    waiter.prepare(f"scope {self.name}", self)
                else:
                    waiter.place = self
                    waiter.parked.append(f"scope {self.name}")
                waiter.park()
            except BaseException as error:
                if self.cancel_called and isinstance(error, KeyboardInterrupt):  # it has come again
                    self.force()
                self.take(error)

    def force(self) -> None:
        """Cancel the children at their parks in spite of their shields: there is no other way out."""
        for child in list(self.children):
            for scope in cancels_of(child).scopes:
                scope.force()
            if child.parked and child.taken_off():
                child.unpark(error=Cancelled("by force"))

    def remove(self, waiter: object) -> bool:
        """Undo the wait for the children, which is too late when they are cancelled: it is for their end then."""
        return not self.cancel_called

    def close(self, waiter: Dhaga | Main) -> None:
        """Be one whose block has ended."""
        if self.entry is not None:
            waiter.scheduler.timers.discard(self.entry)
        cancels = cancels_of(waiter)
        cancels.scopes.remove(self)
        for error in [each for each in cancels if origin(each) == math.inf]:  # a Ctrl-C that had to wait for the end
            cancels.remove(error)
            self.take(error)
        waiter.place = self.waiter = self.parent = self.order = None  # no reference stays: it would make a cycle

    def tell(self, waiter: Dhaga | Main, error: BaseException | None) -> bool:
        """Raise what the block has to tell. Returns: True if the body's error was no more than the scope's cancel."""
        outcome = self.outcome()
        if outcome is not self.foreign and self.foreign is not None and getattr(self.foreign, "scope", None) is None:
            waiter.interrupt(self.foreign)  # for the next park: the errors go first
        try:
            if outcome is not None and outcome is not error:
                raise outcome from None
            return outcome is None
        finally:
            del outcome, error, self

    def outcome(self) -> BaseException | None:
        """Return what is to be raised: the errors, or else a cancel from outside."""
        late = self.expired and self.cancelled_caught and not self.moves_on
        if not self.errors:
            if self.foreign is not None:
                return self.foreign
            return TimeoutError(f"not done within {self.timeout} s") if late else None
        if late:
            self.errors.append(TimeoutError(f"not done within {self.timeout} s"))
        if len(self.errors) == 1 and not isinstance(self.errors[0], Exception | BaseExceptionGroup):
            return self.errors[0]
        return BaseExceptionGroup(f"scope {self.name}", self.errors)


def checked(timeout: float | None) -> float | None:
    """Return the seconds of a timeout. Raises: ValueError, TypeError."""
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"a timeout is seconds or None, not {timeout!r}")
    if not timeout >= 0:
        raise ValueError(f"a timeout is a number of seconds from 0 on, or None, not {timeout!r}")
    return timeout


def fail_after(seconds: float | None, name: str | None = None) -> Scope:
    """Make a scope whose block raises TimeoutError if it is cut short after some seconds: ``with fail_after(2):``.

    What ``dhaga.Timeout`` does, and cancels that stand. Raises: ValueError.
    """
    return Scope(seconds, name)


def move_on_after(seconds: float | None, name: str | None = None) -> Scope:
    """Make a scope that is left after some seconds without an error: ``with move_on_after(2) as scope:``.

    ``scope.cancelled_caught`` tells whether that has cut it short. Raises: ValueError.
    """
    scope = Scope(seconds, name)
    scope.moves_on = True
    return scope


class shield:
    """Hold cancels and expiries off while a block runs: ``with shield(): put_away()``, in a ``finally``, say.

    It holds off what comes from outside: ``cancel()`` of the dhaga, cancels of scopes, ends of Timeouts entered before.
    After it, they come at the next park. Whoever waits for the dhaga waits as long; put a ``fail_after`` within.
    A Ctrl-C is not held off, and goes through the shields of a scope's children where it comes a second time.
    Parks: never. From: a dhaga, main code. A ``with`` block each.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number: int | None = None

    def __repr__(self) -> str:
        return f"<shield {'not entered' if self.number is None else self.number}>"

    def __enter__(self) -> Self:
        if self.number is not None:
            raise RuntimeError(f"{self!r} is entered already or was used before: make one for each block")
        me = current()
        self.number = me.scheduler.timers.sequence()
        cancels_of(me).shield(self.number)
        return self

    def __exit__(self, *_: object) -> None:
        pending = current().pending
        if not isinstance(pending, Cancels) or self.number not in pending.shields:
            raise RuntimeError(f"{self!r} is not left by whom it was entered by: enter and leave it in the same dhaga")
        pending.unshield(self.number)


class no_park:
    """Have each call in a block raise ParkError that would park: ``with no_park(): update(table)``.

    For code that must not be interrupted by other dhagas, and for finding out what parks. A call that need not wait
    goes through, and so does the return to a lock after ``Condition.wait``.
    Parks: never. From: a dhaga, main code, any OS thread. A ``with`` block each.
    """

    __slots__ = ("ban",)

    def __init__(self) -> None:
        self.ban: Ban | None = None

    def __enter__(self) -> Self:
        if self.ban is not None:
            raise RuntimeError("this no_park() is entered already or was used before: make one for each block")
        code = sys._getframe(1)
        self.ban = Ban(f"{code.f_code.co_filename}:{code.f_lineno}")
        cancels_of(this_waiter()).append(self.ban)
        return self

    def __exit__(self, *_: object) -> None:
        pending = this_waiter().pending
        if self.ban is None or not isinstance(pending, Cancels) or self.ban not in pending:
            raise RuntimeError("no_park() is not left by whom it was entered by: enter and leave it in the same dhaga")
        pending.drop(self.ban)
