"""Scope: a block that waits for the dhagas spawned in it and can cancel them (trio's nursery and cancel scope in one).

A scope has four states: not entered, open, leaving, ended. In an open scope, the body runs in ``_waiter``, a dhaga or
main code, and ``spawn`` adds to ``_children``. In a leaving scope, the body has ended, and ``_waiter`` is parked in
``__exit__`` until the last child ends. In an ended scope, ``_waiter`` is None and no reference to other scopes is left.
All changes happen in the OS thread of ``_waiter``; ``cancel`` forwards calls from other threads to that thread.

A scope's cancel is standing (``_standing_cancel``, a ScopeCancel; see ``_kernel/wait/cancellation.py``): until the
block has ended, each park of the body or a child raises a new ``Cancelled``. So code that swallows a ``Cancelled`` gets
another at its next park. Each waiter has a stack of the scopes whose blocks it is running. ``_parent`` is the next
outer scope in that stack, or, for a child's outermost block, the scope in which the child was spawned. A cancel also
reaches inner scopes: their bodies raise, and a scope whose body raises cancels its children. ``shield()``
(``shield.py``) delays cancels from outside.

``_errors`` collects the errors of the children and the body. The first error cancels the body and all other children,
and the block raises the errors in the outer scope. A Cancelled of this scope does not count as an error. A Cancelled
from outside is kept (``_outside_cancel``), and raised again if there are no errors.

Rejected: a cancel that is raised only once, like ``Dhaga.cancel``. A child that swallows the error would keep the block
open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from greenlet import GreenletExit, getcurrent

from .._kernel import originals, outside
from .._kernel.api import current
from .._kernel.errors import Cancelled, Expired
from .._kernel.faces.arguments import checked_timeout
from .._kernel.faces.foreign_names import OF_A_SCOPE, refuse_async_with, say_foreign_names
from .._kernel.run.main_code import Main
from .._kernel.run.microthread import Dhaga, T
from .._kernel.run.run_queues import NORMAL, Priority
from .._kernel.run.timers import Entry
from .._kernel.wait.cancellation import ScopeCancel, block_number, pending_errors_of
from .._kernel.wait.current import scheduler_of_caller
from .._kernel.wait.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")


class Child(Dhaga[T]):
    """A dhaga that was spawned in a scope. The dhaga reports its error and its end to the scope."""

    __slots__ = ("_scope",)

    _scope: Scope

    def _report(self, error: BaseException) -> None:
        """Report an error to the scope. If the scope does not wait for this child, report the error as a plain dhaga
        does.
        """
        if self._scope._waits_for(self):
            self._scope._child_failed(self, error)
        else:
            super()._report(error)

    def _end(self) -> None:
        super()._end()
        self._scope._child_ended(self)


@refuse_async_with("async with asyncio.TaskGroup()")
class Scope:
    """A block that ends after all dhagas spawned in it have ended.

    An error of a child or of the body cancels the body and all other children. The block raises the errors in an
    ExceptionGroup, but raises a single SystemExit or KeyboardInterrupt unchanged. After ``timeout`` seconds the body
    and all children are cancelled, and TimeoutError is raised. A cancelled child does not count as an error.
    ``cancelled_caught``: whether the scope's cancel interrupted a park. ``expired``: whether the timeout caused the
    cancel. Parks: at the end of the block, until all children have ended (``scope NAME``). From: a dhaga, main code.
    Raises: ValueError.

    >>> with Scope() as scope:
    ...     child = scope.spawn(max, 1, 2)
    >>> child.result()
    2
    """

    __slots__ = (
        "__weakref__", "_children", "_entered", "_errors", "_leaving", "_moves_on", "_number", "_outside_cancel",
        "_parent", "_standing_cancel", "_timer_entry", "_waiter", "cancel_called", "cancelled_caught", "expired",
        "name", "timeout",
    )  # fmt: skip

    def __init__(self, timeout: float | None = None, name: str | None = None) -> None:
        self.timeout: float | None = checked_timeout(timeout)
        self.name: str = name or str(outside.next_scope())
        self._moves_on = False
        self._entered = self._leaving = False
        self.cancel_called: bool = False
        self.expired: bool = False
        self.cancelled_caught: bool = False
        self._waiter: Dhaga | Main | None = None  # runs the body; None before and after the block
        self._parent: Scope | None = None
        self._children: dict[Child, None] = {}
        self._errors: list[BaseException] = []
        self._outside_cancel: BaseException | None = None  # a Cancelled, or an expired Timeout
        self._standing_cancel: ScopeCancel | None = None
        self._timer_entry: Entry | None = None
        self._number = -1

    def _holders(self) -> list[object]:
        return list(self._children)

    def __repr__(self) -> str:
        if self._waiter is None:
            return f"<Scope {self.name} {'ended' if self._entered else 'not entered'}>"
        state = "expired" if self.expired else "cancelled" if self.cancel_called else "open"
        count = len(self._children)
        return f"<Scope {self.name} {state}, {count} {'child' if count == 1 else 'children'}>"

    @overload
    def spawn(
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        name: str | None,
        priority: Priority = ...,
        context: Context | None = ...,
        **kwargs: Any,
    ) -> Dhaga[R]: ...
    @overload
    def spawn(
        self, fn: Callable[..., R], /, *args: Any, priority: Priority, context: Context | None = ..., **kwargs: Any
    ) -> Dhaga[R]: ...
    @overload
    def spawn(self, fn: Callable[..., R], /, *args: Any, context: Context | None, **kwargs: Any) -> Dhaga[R]: ...
    @overload
    def spawn(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Dhaga[R]: ...
    def spawn(  # type: ignore[misc]  # P.kwargs may contain keywords of spawn
        self,
        fn: Callable[..., R],
        /,
        *args: Any,
        name: str | None = None,
        priority: Priority = NORMAL,
        context: Context | None = None,
        **kwargs: Any,
    ) -> Dhaga[R]:
        """Start a dhaga for which the block waits, with the arguments of ``dhaga.spawn``.

        Parks: never. From: any code in the scope's OS thread, until the block has ended. If the scope is cancelled, the
        dhaga ends without being started. Raises: TypeError, RuntimeError.
        """
        scheduler = self._check_caller().scheduler
        child: Child[R] = Child(
            scheduler, fn, args, kwargs or None, name, getattr(self._waiter, "daemon", False), context, priority
        )
        child._scope = self
        if self._standing_cancel is not None:
            child.cancel_by_scope(self._standing_cancel)
        self._children[child] = None
        try:
            scheduler.admit(child)
        except BaseException:
            if child not in scheduler.live:
                del self._children[child]
            raise
        return child

    def _check_caller(self) -> Dhaga | Main:
        """Return the waiter that runs the body. Raises: RuntimeError outside the block or in another OS thread."""
        waiter = self._waiter
        if waiter is None:
            raise RuntimeError(f"{self!r} takes no dhagas: spawn inside its block, before it ends")
        elsewhere = scheduler_of_caller() is not waiter.scheduler  # also True in main code and in callbacks
        if elsewhere and waiter.scheduler.thread_ident != originals.get_ident():
            raise RuntimeError(f"{self!r} lives in another OS thread: only cancel() may be called here")
        return waiter

    def cancel(self, reason: object = None) -> bool:
        """Cancel the children and the rest of the body. The block does not raise the scope's own Cancelled.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if the block has ended already. Raises:
        RuntimeError before the block is entered.
        """
        waiter = self._waiter
        if waiter is None:
            if not self._entered:
                raise RuntimeError(f"{self!r}: there is nothing to cancel before its block has begun")
            return False
        return waiter.scheduler.call(self._cancel_once, reason)

    def _cancel_once(self, reason: object) -> None:
        """Cancel the body and the children, unless the scope is cancelled already. From: the scope's OS thread."""
        if self.cancel_called or self._waiter is None:
            return
        self.cancel_called = True
        self._standing_cancel = ScopeCancel(self, self._number, reason)
        if not self._leaving:
            self._waiter.cancel_by_scope(self._standing_cancel)
        for child in list(self._children):
            child.cancel_by_scope(self._standing_cancel)

    def _expire(self) -> None:
        """Cancel the scope at its timeout, unless it is cancelled already. From: the scheduler's timers."""
        if not self.cancel_called:
            self.expired = True
            self._cancel_once(f"not done within {self.timeout} s")

    # ---- children

    def _waits_for(self, child: Child) -> bool:
        """Return whether the block waits for a child: False if the block has ended or, after a fork, belongs to the
        parent process.
        """
        return self._waiter is not None and self._waiter.scheduler is child.scheduler

    def _child_failed(self, child: Child, error: BaseException) -> None:
        """Record a child's error and cancel the scope; a cancel does not count as an error."""
        if isinstance(error, (Cancelled, GreenletExit)):
            self.cancelled_caught |= getattr(error, "scope", None) is self
        else:
            self._errors.append(error)
            self._cancel_once(f"{child.name} failed")

    def _child_ended(self, child: Child) -> None:
        """Remove an ended child; after the last child, wake the body's waiter."""
        self._children.pop(child, None)
        if self._leaving and not self._children and self._waiter is not None:
            self._waiter.wake_parked()

    # ---- the block

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError(f"{self!r} is already entered or was used before: make one for each block")
        me = current()
        scopes = pending_errors_of(me).scopes
        self._parent = scopes[-1] if scopes else getattr(me, "_scope", None)
        timers = me.scheduler.timers
        if self.timeout is not None and self.timeout < math.inf:
            self._timer_entry = timers.add(me.scheduler.clock() + self.timeout, self)
        # Blocks are numbered in the order of entry, so that a shield recognizes cancels from outside. A scope with a
        # timeout uses the number of its timer, because timers and blocks share one sequence.
        self._number = timers.sequence() if self._timer_entry is None else self._timer_entry[1]
        self._entered = True
        self._waiter = me
        scopes.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        waiter = self._begin_exit()
        try:
            if error is not None:
                self._take_error(error)
            self._wait_for_children(waiter)
            self._close(waiter)
            return self._raise_outcome(waiter, error)
        finally:
            # The errors' tracebacks refer to this frame, so references from the frame would make reference cycles.
            self._errors, self._outside_cancel = [], None
            del error, self

    def _begin_exit(self) -> Dhaga | Main:
        """Begin to leave the block, and return its waiter. Raises: RuntimeError if the waiter is not the caller."""
        waiter, me = self._waiter, getcurrent()
        if waiter is None:
            raise RuntimeError(f"{self!r} cannot be left: its block is not open")
        if me is not waiter and me is not getattr(waiter, "own_greenlet", None):
            self.cancel("it was left by another caller")
            raise RuntimeError(f"{self!r} is left by another caller, and cancelled: it was entered by {waiter!r}")
        self._leaving = True
        cancels = pending_errors_of(waiter)
        if self._standing_cancel is not None:
            cancels.drop(self._standing_cancel)
        if cancels.scopes[-1] is not self:
            self._take_error(RuntimeError(f"{self!r} is left before {cancels.scopes[-1]!r}, which was entered later"))
        return waiter

    def _take_error(self, error: BaseException) -> None:
        """Record an error that ended the body or the wait for the children, and cancel the scope."""
        if isinstance(error, (Cancelled, Expired)):
            if getattr(error, "scope", None) is self:
                self.cancelled_caught = True
            else:
                self._outside_cancel = error
        elif not self._has_error(error):
            self._errors.insert(0, error)
        self._cancel_once("its body has ended early")

    def _has_error(self, error: BaseException) -> bool:
        """Return whether an error is already recorded: a child's ``result()`` may have raised the same error in the
        body.
        """
        # Each Ctrl-C raises a new KeyboardInterrupt. One of them is enough.
        kind = KeyboardInterrupt
        return any(error is other or (isinstance(error, kind) and isinstance(other, kind)) for other in self._errors)

    def _wait_for_children(self, waiter: Dhaga | Main) -> None:
        """Park until the last child has ended. An error during the park is recorded and cancels the children."""
        for child in list(self._children):
            if child.has_ended:  # in a forked child, the parent's dhagas are marked as ended
                del self._children[child]
        while self._children:
            try:
                # After the children are cancelled, this park waits for their end, and a pending cancel must not end the
                # park.
                prepare = waiter.prepare_uncancellable if self.cancel_called else waiter.prepare_park
                prepare(f"scope {self.name}", self)
                waiter.park_until_woken()
            except BaseException as error:
                # Cancelled children that are still running at a Ctrl-C are shielded or slow.
                if self.cancel_called and isinstance(error, KeyboardInterrupt):
                    self._cancel_by_force()
                self._take_error(error)

    def _cancel_by_force(self) -> None:
        """Cancel the parked children, even if they are shielded. From: a Ctrl-C after the scope's cancel."""
        for child in list(self._children):
            for scope in pending_errors_of(child).scopes:
                scope._cancel_by_force()
            ticket = child.parked
            if ticket and child.undo_park():
                child.wake_from(ticket, error=Cancelled("by force"))

    def _remove(self, waiter: object) -> bool:
        """Return whether a cancel may end the wait for the children: False once the children are cancelled."""
        return not self.cancel_called

    def _close(self, waiter: Dhaga | Main) -> None:
        """End the block: remove the timer, the scope's entry in the waiter's stack, and all references."""
        if self._timer_entry is not None:
            waiter.scheduler.timers.discard(self._timer_entry)
        cancels = pending_errors_of(waiter)
        cancels.scopes.remove(self)
        # Record the pending Ctrl-Cs that could not end the wait for the children.
        for error in [each for each in cancels if block_number(each) == math.inf]:
            cancels.remove(error)
            self._take_error(error)
        # A remaining reference would make a reference cycle through the waiter's frame.
        self._waiter = self._parent = self._standing_cancel = None

    def _raise_outcome(self, waiter: Dhaga | Main, error: BaseException | None) -> bool:
        """Raise the scope's outcome, unless it is the body's error. Returns: True if there is no error at all."""
        outcome = self._outcome()
        outside = self._outside_cancel
        # If errors are raised, a plain cancel stays pending until the next park. A cancel of another scope is standing,
        # and is therefore raised at the next park in any case.
        if outcome is not outside and outside is not None and getattr(outside, "scope", None) is None:
            waiter.cancel_with(outside)
        try:
            if outcome is not None and outcome is not error:
                raise outcome from None
            return outcome is None
        finally:
            del outcome, outside, error, self

    def _outcome(self) -> BaseException | None:
        """Return the error to raise, or None: the group of errors, else the cancel from outside, else TimeoutError."""
        late = self.expired and self.cancelled_caught and not self._moves_on
        if not self._errors:
            if self._outside_cancel is not None:
                return self._outside_cancel
            return TimeoutError(f"not done within {self.timeout} s") if late else None
        if late:
            self._errors.append(TimeoutError(f"not done within {self.timeout} s"))
        if len(self._errors) == 1 and not isinstance(self._errors[0], Exception | BaseExceptionGroup):
            return self._errors[0]
        group = BaseExceptionGroup(f"scope {self.name}", self._errors)
        # An inner scope has already added the note to its group.
        if not any(isinstance(error, BaseExceptionGroup) for error in self._errors):
            kind = type(self._errors[0]).__name__
            group.add_note(f"a scope raises its errors in a group: to catch this one, write except* {kind}")
        return group


say_foreign_names(Scope, OF_A_SCOPE)


def fail_after(seconds: float | None, name: str | None = None) -> Scope:
    """Return a scope that cancels its block after ``seconds`` and raises TimeoutError: ``with fail_after(2):``.

    Like ``dhaga.Timeout``, but with a standing cancel. Raises: ValueError.

    >>> with fail_after(2) as scope:
    ...     scope.spawn(int).result(), scope.expired
    (0, False)
    """
    return Scope(seconds, name)


def move_on_after(seconds: float | None, name: str | None = None) -> Scope:
    """Return a scope that cancels its block after ``seconds``, without an error: ``with move_on_after(2) as scope:``.

    ``scope.cancelled_caught`` is True if the timeout interrupted the block. Raises: ValueError.

    >>> import dhaga
    >>> with move_on_after(0.001) as scope: dhaga.sleep(5)
    >>> scope.cancelled_caught
    True
    """
    scope = Scope(seconds, name)
    scope._moves_on = True
    return scope


def scopes_of(waiter: Waiter) -> list[Scope]:
    """Return the scopes of a waiter, outermost first: the waiter runs their bodies, or was spawned in them."""
    innermost = getattr(waiter.pending_errors, "scopes", None) or [getattr(waiter, "_scope", None)]
    found = []
    scope: Scope | None = innermost[-1]
    while scope is not None:
        found.append(scope)
        scope = scope._parent
    return found[::-1]
