"""Preemption: ending the turn of a dhaga that computes or polls for long, in programs that were written for threads.

A turn lasts from one switch to the next. The watcher, an OS thread (``process/preemption_watcher.py``), regularly
checks each scheduler. A turn is *overlong* if it takes longer than the quantum while other dhagas wait for the OS
thread. An overlong turn ends at the first of two places:

- Layer one, on every Python: a call of Dhaga that does not wait and finds nothing (``found_nothing``), such as
  ``Event.is_set`` in a polling loop.
- Layer two, from CPython 3.12 on: the next jump, call or return in the program's innermost function. The watcher arms
  ``sys.monitoring`` for only this function, and the event disarms the function (``process/preemption_events.py``). So
  no function is monitored while turns are short.

The dhaga then waits behind the other runnable dhagas, as after a yield. When the dhaga continues, a pending error may
be raised in it: see ``deadline_strikes.py``. A turn never ends where the interpreter could not switch OS threads, or
while the code uses something that belongs to the OS thread, such as a lock or an event loop: see ``may_end_turn``.
CPython 3.11 has no layer two, because no substitute is suitable: a trace function would always cost time, a pending
call is not reentrant, and a signal interrupts system calls.
Rejected: events for the whole process. For each function that runs while there are events, CPython would rewrite the
bytecode twice: after the events begin, and again after they have ended.
"""

from __future__ import annotations

import os
import sys
from asyncio import _get_running_loop
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from .. import hooks
from ..context_manager import contextmanager
from ..wait.current import may_yield, parking_waiter, running_waiter
from ..wait.waiter import Waiter
from . import deadline_strikes, native_callers, thread_state
from .call_outs import is_switchable, program_frame

if TYPE_CHECKING:
    from .scheduler import Scheduler

QUANTUM = 0.01
"""The default quantum: seconds after which a turn is overlong on a preemptive scheduler without a quantum of its own.

Go uses the same value. Each preemption of a loop costs about 0.1 ms in all, which is 1 % of the quantum.
"""

MAX_QUANTUM = 60.0
"""The longest quantum: a program that may be blocked for a minute needs no preemption."""

PLACES_KEPT = 1000
"""The maximal number of source lines whose preemptions are counted separately. All other lines are counted together."""

OTHER_PLACES = "other places"

VARIABLE = "DHAGA_PREEMPT"


def quantum_from_environment() -> float | None:
    """Return the seconds that ``DHAGA_PREEMPT`` sets (0: never), or None if it is not set. Raises: ValueError."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    try:
        seconds = float(text)
        if not 0 <= seconds <= MAX_QUANTUM:
            raise ValueError
    except ValueError:
        raise ValueError(f"{VARIABLE} takes seconds from 0 (never) to {MAX_QUANTUM:g}, not {text!r}") from None
    return seconds


environment: float | None = quantum_from_environment()
"""The value of ``DHAGA_PREEMPT`` for this process."""

default_quantum: float | None = environment or None
"""The quantum of schedulers without a quantum of their own; None if such schedulers are not preemptive."""

deadlines_strike: bool = bool(environment)
"""Whether cancels and deadlines strike (are raised in) code that computes, on schedulers without their own quantum.

``dhaga.monkey.patch`` leaves this setting off. Code that was written for threads expects no such errors while it
computes, and may fail. Of 2,000 strikes in redis-py's pool, 20 passed an answer to the wrong caller, and others lost a
connection.
"""

overlong: dict[Scheduler, int] = {}
"""The schedulers whose current turn is overlong, each with the turn's number.

The dictionary is nearly always empty, so that a check is cheap.
"""

places: Counter[str] = Counter()
"""The number of turns that preemption has ended at each line of the program."""

uninterrupted: dict[Any, int] = {}
"""The waiters that are in ``no_preempt()`` blocks, each with the number of its blocks."""

signal_handlers: frozenset[CodeType] = frozenset()
"""The code of the program's signal handlers at the watcher's last check."""


def may_deadlines_strike(scheduler: Scheduler) -> bool:
    """Return whether cancels and deadlines may strike code that computes on this scheduler."""
    return bool(scheduler.quantum) or (deadlines_strike and quantum_of(scheduler) is not None)


def let_deadlines_strike() -> None:
    """Allow cancels and deadlines to strike code that computes, in all preemptive schedulers of the process."""
    global deadlines_strike
    deadlines_strike = True


def check_quantum(seconds: float) -> None:
    """Check a quantum that a program sets. Raises: ValueError, TypeError."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"preempt takes seconds, a number such as {QUANTUM}, and not {seconds!r}")
    if not 0 <= seconds <= MAX_QUANTUM:
        raise ValueError(f"preempt takes seconds from 0 (never) to {MAX_QUANTUM:g}, not {seconds!r}")


def quantum_of(scheduler: Scheduler) -> float | None:
    """Return the quantum of a scheduler in seconds; None if the scheduler is not preemptive."""
    own = scheduler.quantum
    return default_quantum if own is None else own or None


def may_end_turn(me: Any, frame: FrameType | None) -> bool:
    """Return whether the turn of the caller, whose code is at ``frame``, may end there.

    Returns: False under a debugger or another trace function, where ``may_pause`` is false, and in calls from C code
    that holds a lock.
    """
    return sys.gettrace() is None and may_pause(me, frame) and not native_callers.hold_lock()


def may_pause(me: Any, frame: FrameType | None) -> bool:
    """Return whether other dhagas may run while the caller pauses at ``frame``.

    Returns: False in a park, on the hub, in coroutines, in ``no_park()`` and ``no_preempt()`` blocks, at the end of a
    dhaga, and where ``is_switchable`` is false.
    """
    return (
        me not in uninterrupted
        and not getattr(me, "has_ended", False)
        and _get_running_loop() is None
        and may_yield(me)
        and is_switchable(frame, signal_handlers)
    )


def found_nothing() -> None:
    """End the caller's turn if the turn is overlong. From: a call-out (``call_outs.py``) that has found nothing.

    Callers first check ``if overlong:``, which takes 10 ns. Parks: never, but other dhagas may run. Raises: the errors
    of ``strike``.
    """
    me = running_waiter()
    if me is not None and (turn := overlong.get(me.scheduler)) is not None:
        frame = sys._getframe(1)
        if turn == me.scheduler.count_switches() and may_end_turn(me, frame):
            end_turn(me, frame)
            strike(me, frame)


def end_turn(me: Waiter, frame: FrameType) -> None:
    """End the turn of the caller, whose code is at ``frame``. Raises: nothing; ``strike`` raises pending errors."""
    scheduler = me.scheduler
    overlong.pop(scheduler, None)
    scheduler.preemptions += 1
    innermost = program_frame(frame) or frame
    place = f"{innermost.f_code.co_filename}:{innermost.f_lineno} in {innermost.f_code.co_qualname}"
    kept = place if place in places or len(places) < PLACES_KEPT else OTHER_PLACES
    places[kept] += 1
    on_preemption = hooks.on_preemption
    if on_preemption is not None:
        on_preemption(me, place)
    with thread_state.put_aside():
        scheduler._give_turn_up(me)


def strike(me: Waiter, frame: FrameType | None, deadlines: bool = True) -> None:
    """Raise the pending error, if any, that may strike the caller at ``frame``: see ``deadline_strikes``.

    ``deadlines``: whether a cancel or an expired timeout may also be raised, if the program allows such strikes.
    """
    if me.pending_errors:
        error = deadline_strikes.take(me, frame, deadlines and may_deadlines_strike(me.scheduler))
        if error is not None:
            raise error


@contextmanager
def no_preempt() -> Iterator[None]:
    """Keep the turn in the block: no other dhaga of this OS thread runs until the caller parks or leaves the block.

    Use the block for code that must run undisturbed between a check and an action. Parks: never. From: anywhere; the
    block has no effect in an OS thread without a scheduler.
    """
    me = parking_waiter()
    if me is None:
        yield
        return
    uninterrupted[me] = uninterrupted.get(me, 0) + 1
    try:
        yield
    finally:
        uninterrupted[me] -= 1
        if not uninterrupted[me]:
            del uninterrupted[me]
