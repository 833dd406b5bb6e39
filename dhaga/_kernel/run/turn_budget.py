"""The turn budget: how a call on a socket, pipe or file lets others run although it need not wait (invariant 9).

Otherwise a peer that always has data ready, or always has room, would keep its dhaga running for ever. Measured: one
client that pipelined requests kept all other clients of its OS thread waiting for as long as it sent.
A *turn* lasts from one switch to the next, so that the scheduler's number of switches names it. The first call that
looks at the clock notes number and deadline. A later call of the same turn that finds the deadline passed goes once
around the run queue. On the way the scheduler looks at its clock: the lap ends, and fds and timers also get their turn.
Turns are not tracked: a call that is not due costs one look at the clock, and frequent calls only count down to that
look (``CALLS_PER_CHECK``).
Never due: in a ``no_park()``, on the hub or in a coroutine, in a plain OS thread (it blocks no other), and for a socket
with timeout 0, whose calls promise not to wait, in signal handlers for example.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from ..wait.current import may_yield, running_waiter
from .scheduler import sleep

TURN_SECONDS = 0.001
"""Seconds after which such a call ends a turn: the length of a lap (``LAP_SECONDS``), so that a yield costs 1.5 % of
it.

An ordinary client waits for about five turns of a flooder (accept, first turn, request, answer): 6 ms of 20.
"""

CALLS_PER_CHECK = 8
"""Sends of one socket between two looks at the clock: 40 ns each instead of 80; an echo over a socketpair takes 4,900.
"""


def yield_if_due() -> None:
    """Go once around the run queue if the caller's turn has taken ``TURN_SECONDS``.

    Parks: ``sleep``, if so. From: anywhere; no-op where parking cannot work. Raises: Cancelled, Expired.
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
        if scheduler.clock() < scheduler.turn_ends_at:
            return
    except AttributeError:  # main code, a plain OS thread or the hub
        me = waiter_that_is_due()
    if me is not None:
        end_turn(me)


def yield_uncancelled_if_due() -> bool:
    """Yield as ``yield_if_due`` does, within an operation: a cancel stays pending. Returns: whether it yielded."""
    me = waiter_that_is_due()
    if me is None or not is_turn_over(me) or not may_yield(me):
        return False
    me.scheduler._go_around(me, me.wake_queue)
    return True


def waiter_that_is_due() -> Any:
    """Return the caller if the deadline last noted has passed, else None."""
    me = running_waiter()
    return me if me is not None and me.scheduler.clock() >= me.scheduler.turn_ends_at else None


def end_turn(me: Any) -> None:
    """Yield if the turn whose deadline has passed is the caller's, else note the caller's. Parks, raises: as above."""
    if is_turn_over(me) and may_yield(me):
        me.scheduler._end_stretch()
        sleep(0)


def is_turn_over(me: Any) -> bool:
    """Note the next deadline. Returns: whether the turn whose deadline has passed is the caller's own."""
    scheduler = me.scheduler
    scheduler.turn_ends_at = scheduler.clock() + TURN_SECONDS
    former, scheduler._turn = scheduler._turn, scheduler.count_switches()
    return bool(former == scheduler._turn)
