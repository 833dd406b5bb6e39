"""Pauses of long SQLite statements: other dhagas run between two steps of SQLite's virtual machine.

SQLite calls a progress handler between steps, in the statement's OS thread, so transactions and thread checks are not
affected. Rejected: an OS thread for each statement, because it would cost 40 µs for each statement, and the program's
SQL functions and converters would run outside their dhaga.
While a statement pauses, other calls on the connection wait for the statement's end, as threads wait for SQLite's lock.
No statement pauses on a connection that several OS threads may use, or that shares a cache: see
``_dhaga_new_handler`` in ``sqlite3.py``.
A dhaga that already iterates over rows does not wait: SQLite allows nested steps, but no nested pauses.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, filterfalse
from operator import attrgetter
from typing import TypeVar

from .._kernel.backoff import backoff
from .._kernel.process.signals import takes_strikes
from .._kernel.run import native_callers, preemption
from .._kernel.run.call_outs import calls_out
from .._kernel.run.scheduler import sleep
from .._kernel.run.turn_budget import waiter_that_is_due, yield_uncancelled_if_due
from .._kernel.wait.current import parking_waiter, running_waiter

STEPS = 50_000
"""Number of virtual machine steps between two calls of the handler. These steps take about 1 ms.

In a program with one OS thread, more frequent calls would be cheap: a call takes 0.3 µs. But each call acquires the
interpreter lock. While another OS thread computes, a call may wait for 5 ms.
"""

PAUSES = 0.001, 0.05
"""First and longest interval, in seconds, between two checks of whether a statement still pauses."""

T = TypeVar("T")


class StatementTurns:
    """The pauses of one connection's statements.

    >>> StatementTurns()
    <StatementTurns: no statement pauses>
    """

    __slots__ = ("_calls", "_error", "pausing")

    def __init__(self) -> None:
        self.pausing = False
        self._calls = 0
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<StatementTurns: {'a' if self.pausing else 'no'} statement pauses>"

    def new_handler(self) -> Callable[[], bool]:
        """Return the progress handler for SQLite."""
        return error_proof(self._on_progress, self._keep)

    @calls_out
    def run(self, call: Callable[[], T]) -> T:
        """Make a call that runs a statement. Parks: while another statement of the connection pauses (``sleep``).

        Raises: errors of the call, and an error that a signal handler raised during the call.
        """
        if self.pausing:
            self.wait()
        self._calls += 1
        try:
            return call()
        except sqlite3.OperationalError:
            if self._error is None:
                raise
        finally:
            self._calls -= 1
        error, self._error = self._error, None
        raise error

    def wait(self, must_end: bool = False) -> None:
        """Wait until no statement pauses. Parks: while a statement pauses (``sleep``).

        Where parking cannot work, return at once: the call runs within the pause. Raises: with ``must_end``, ParkError
        instead.
        """
        for pause in backoff(*PAUSES):
            if not self.pausing or not (must_end or parking_waiter() is not None):
                return
            sleep(pause)

    def _on_progress(self) -> bool:
        """End the caller's turn if the turn has taken too long. Returns: False, so that SQLite continues."""
        # If no ``run`` is active, the caller iterates over rows, perhaps while another statement pauses.
        if not self._calls or self.pausing:
            return False
        me = waiter_that_is_due()
        # Frame 1 is the generator that calls this method, frame 2 is the code that calls SQLite.
        if me is not None and preemption.may_pause(me, sys._getframe(2)) and not native_callers.hold_lock():
            self.pausing = True
            try:
                yield_uncancelled_if_due()
            finally:
                self.pausing = False
        return False

    def _keep(self, error: BaseException) -> bool:
        """Store an error for ``run``, because C would drop the error. Returns: whether SQLite must end the statement.

        If no ``run`` is active, cancel the running dhaga with the error.
        """
        me = running_waiter()
        if not self._calls and me is not None:
            me.cancel_with(error)
            return False
        self._error = error
        return True


def error_proof(function: Callable[[], bool], on_error: Callable[[BaseException], bool]) -> Callable[[], bool]:
    """Return a function implemented in C that calls ``function`` and passes all its errors to ``on_error``.

    If a signal arrives while C code runs, Python calls the signal's handler at the first instruction of Python code. A
    function has not yet entered its ``try`` block at this instruction, but a resumed generator is inside its block. A
    second generator takes the calls that arrive while the first generator runs.
    """
    generators = [answers(function, on_error) for _ in range(2)]
    for each in generators:
        next(each)
    return map(next, filterfalse(attrgetter("gi_running"), cycle(generators))).__next__


@calls_out
@takes_strikes
def answers(function: Callable[[], bool], on_error: Callable[[BaseException], bool]) -> Iterator[bool]:
    answer = False
    while True:
        try:
            while True:
                yield answer
                answer = False
                answer = function()
        except GeneratorExit:
            raise
        except BaseException as error:
            answer = on_error(error)
