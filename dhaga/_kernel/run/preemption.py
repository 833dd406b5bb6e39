"""Preemption: the turn of a dhaga that computes or polls is ended, in programs that were written for threads.

A turn lasts from one switch to the next. The watcher, an OS thread (``process/preemption_watcher.py``), checks each
scheduler now and then. A turn that takes longer than the quantum, while others wait for the thread, is *overlong*. It
ends at the first of two places:

- Layer one, on every Python: a call of Dhaga that does not wait and finds nothing (``found_nothing``), such as
  ``Event.is_set`` in a polling loop.
- Layer two, from CPython 3.12 on: the next jump, call or return of the innermost function of the program. The watcher
  arms ``sys.monitoring`` for this one function, and the event disarms it (``process/preemption_events.py``): nothing is
  armed while turns are short.

The dhaga then goes to the end of its run queue, as if it yielded. Pending errors may strike it as it goes on: see
``strikes.py``. A turn is never ended where a thread could not be switched either, or where the OS thread's own state is
in use: see ``may_end_turn``. CPython 3.11 has no layer two: a trace function costs at all times, a pending call is not
reentrant, and a signal interrupts system calls.
Rejected: events for the whole process, because each function that runs meanwhile would be rewritten, twice.
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
from . import native_callers, strikes, thread_state
from .call_outs import is_switchable, program_frame

if TYPE_CHECKING:
    from .scheduler import Scheduler

QUANTUM = 0.01
"""After this time in seconds a turn is overlong, if preemption is on and the scheduler has no quantum of its own.

As in Go. Each preemption of a loop costs about 0.1 ms with all that runs around it, 1 % of the quantum.
"""

MAX_QUANTUM = 60.0
"""The longest quantum: a program that may be blocked for a minute needs no preemption."""

PLACES_KEPT = 1000
"""Lines that are counted as places of preemptions; later ones are counted together."""

OTHER_PLACES = "other places"

VARIABLE = "DHAGA_PREEMPT"


def quantum_from_environment() -> float | None:
    """Return the seconds that ``DHAGA_PREEMPT`` gives; 0: never; None: it is not set. Raises: ValueError."""
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
"""The quantum of schedulers that have none of their own; None: they are not preemptive."""

deadlines_strike: bool = bool(environment)
"""Whether cancels and deadlines strike code that computes, on schedulers without a quantum of their own.

A patch leaves this off. Code that was written for threads gets no such error there, and may not survive it: of
2,000 strikes in redis-py's pool, 20 handed an answer to the wrong caller, and others lost their connection.
"""

overlong: dict[Scheduler, int] = {}
"""Schedulers whose turn is overlong, with the number of that turn; nearly always empty, so that a check is cheap."""

places: Counter[str] = Counter()
"""The number of turns ended at each line of the program."""

uninterrupted: dict[Any, int] = {}
"""Waiters in ``no_preempt()`` blocks, and the number of these blocks."""

signal_handlers: frozenset[CodeType] = frozenset()
"""The code of the program's signal handlers, as last found by the watcher."""


def may_deadlines_strike(scheduler: Scheduler) -> bool:
    """Return whether the program has asked for preemption of this scheduler."""
    return bool(scheduler.quantum) or (deadlines_strike and quantum_of(scheduler) is not None)


def let_deadlines_strike() -> None:
    """Allow cancels and deadlines to strike code that computes, in all preemptive schedulers of the process."""
    global deadlines_strike
    deadlines_strike = True


def check_quantum(seconds: float) -> None:
    """Check the quantum that a program gives. Raises: ValueError, TypeError."""
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"preempt takes seconds, a number such as {QUANTUM}, and not {seconds!r}")
    if not 0 <= seconds <= MAX_QUANTUM:
        raise ValueError(f"preempt takes seconds from 0 (never) to {MAX_QUANTUM:g}, not {seconds!r}")


def quantum_of(scheduler: Scheduler) -> float | None:
    """Return the quantum of a scheduler in seconds; None if it is not preemptive."""
    own = scheduler.quantum
    return default_quantum if own is None else own or None


def may_end_turn(me: Any, frame: FrameType | None) -> bool:
    """Return whether the turn of the caller, whose code is at ``frame``, may end there.

    False under a debugger or another trace function, where ``may_pause`` is false, and beneath C code with a lock.
    """
    return sys.gettrace() is None and may_pause(me, frame) and not native_callers.hold_lock()


def may_pause(me: Any, frame: FrameType | None) -> bool:
    """Return whether other dhagas may run while the caller pauses at ``frame``.

    False in a park, on the hub, in coroutines, in ``no_park()`` and ``no_preempt()``, at its end, and where
    ``is_switchable`` is false.
    """
    return (
        me not in uninterrupted
        and not getattr(me, "has_ended", False)
        and _get_running_loop() is None
        and may_yield(me)
        and is_switchable(frame, signal_handlers)
    )


def found_nothing() -> None:
    """End the caller's turn if it is overlong. From: a call that does not wait and found nothing, a call-out itself.

    Callers ask ``if overlong:`` first, which costs 10 ns. Parks: never, but others may run. Raises: as ``strike``.
    """
    me = running_waiter()
    if me is not None and (turn := overlong.get(me.scheduler)) is not None:
        frame = sys._getframe(1)
        if turn == me.scheduler.count_switches() and may_end_turn(me, frame):
            end_turn(me, frame)
            strike(me, frame)


def end_turn(me: Waiter, frame: FrameType) -> None:
    """End the turn of the caller, whose code is at ``frame``. Raises: nothing; see ``strike``."""
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
    """Raise the pending error that strikes the caller, whose code is at ``frame``: see ``strikes.py``.

    ``deadlines``: also a cancel or an expired timeout, where the program has asked for that.
    """
    if me.pending_errors:
        error = strikes.take(me, frame, deadlines and may_deadlines_strike(me.scheduler))
        if error is not None:
            raise error


@contextmanager
def no_preempt() -> Iterator[None]:
    """Keep the turn in the block: no dhaga of this OS thread runs before the caller parks or leaves the block.

    For code that checks and then acts, as in a program without preemption. Parks: never. From: anywhere; without effect
    in an OS thread without a scheduler.
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
