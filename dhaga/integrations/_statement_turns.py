"""The turns of SQLite's statements: one that runs long lets others run, between two steps of SQLite's virtual machine.

SQLite calls a progress handler there, in the OS thread of the statement: transactions and thread checks see no change.
Rejected: an OS thread for each statement, whose functions and converters would run outside their dhaga, at 40 µs each.
While a statement pauses, calls of others on its connection wait for its end, as SQLite's own lock makes threads wait.
Rows that another dhaga already iterates over come without a wait: SQLite allows nested steps, but no nested pause.
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
"""Steps of the virtual machine between two calls of the handler, about 1 ms.

More calls would cost statements nothing where one OS thread runs Python (0.3 µs each), but each takes the interpreter
lock: beside another OS thread that computes, a call may wait for 5 ms.
"""

PAUSES = 0.001, 0.05
"""First and longest pause, in seconds, between two looks at a connection whose statement pauses."""

T = TypeVar("T")


class StatementTurns:
    """The turns of one connection's statements.

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

        Raises: as the call, and what a signal's handler raised meanwhile.
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

    def wait(self) -> None:
        """Wait until no statement pauses. Parks: until then; a plain OS thread waits for SQLite's lock in C."""
        for pause in backoff(*PAUSES):
            if not self.pausing or parking_waiter() is None:
                return
            sleep(pause)

    def _on_progress(self) -> bool:
        """End the caller's turn if it is due. Returns: whether SQLite is to end the statement: never."""
        # Without ``run`` the caller iterates over rows, perhaps while another statement pauses.
        if not self._calls or self.pausing:
            return False
        me = waiter_that_is_due()
        # Frame 1 is the generator that calls this, frame 2 the caller of SQLite.
        if me is not None and preemption.may_pause(me, sys._getframe(2)) and not native_callers.hold_lock():
            self.pausing = True
            try:
                yield_uncancelled_if_due()
            finally:
                self.pausing = False
        return False

    def _keep(self, error: BaseException) -> bool:
        """Keep an error for ``run``, because C would drop it. Returns: whether SQLite is to end the statement."""
        me = running_waiter()
        if not self._calls and me is not None:
            me.cancel_with(error)
            return False
        self._error = error
        return True


def error_proof(function: Callable[[], bool], on_error: Callable[[BaseException], bool]) -> Callable[[], bool]:
    """Return a function of C that passes errors, also those raised at its entry, to ``on_error``.

    A signal that came while C ran strikes at the first instruction of Python. A function has not entered its
    ``try`` by then; a generator that continues is inside one. A second generator takes the calls that come while the
    first one runs.
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
