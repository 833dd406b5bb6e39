"""The turn budget: the time after which calls on sockets, pipes and files yield, even if they need not wait.

Without the budget, a peer that always has data ready, or always accepts data, would keep a dhaga running forever.
Measured without the budget: as long as one client pipelined requests, all other clients of the server's OS thread
waited.
(This is the exception in invariant 9 of ``docs/explained/kernel.md``.)
A *turn* lasts from one switch to the next, and is identified by the scheduler's number of switches. The first call
after the last stored deadline stores this number and a new deadline. A later call in the same turn yields if it comes
after the new deadline. The scheduler then reads its clock and ends the lap, so that fds and timers also get their turn.
Turns are not tracked: a call that does not yield costs one read of the clock, and frequent calls only count down to the
next read (``CALLS_PER_CHECK``).
Calls never yield in a ``no_park()`` block, on the hub, in a coroutine, or in a plain OS thread, which does not block
other threads. The same applies to a socket with timeout 0: its calls must not wait, because a signal handler may make
them.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from ..wait.current import may_yield, running_waiter
from .scheduler import sleep

TURN_SECONDS = 0.001
"""The budget in seconds. It is the length of a lap (``LAP_SECONDS``): a yield after this time ends the lap, and the
loop's turn between two laps takes 15 µs, which is 1.5 % of the budget.

Measured: one client flooded the server, and a request of another client took 20 ms. The request's dhagas parked several
times, and waited for about five turns of the flooding client's dhaga. These waits took 6 of the 20 ms.
"""

CALLS_PER_CHECK = 8
"""The number of calls between two reads of the clock. On a socket only sends are counted, on a ZeroMQ socket all calls.

So the budget costs 40 ns per send instead of 80 ns. For comparison, an echo over a socketpair takes 4,900 ns.
"""


def yield_if_due() -> None:
    """Yield if the caller's turn has taken ``TURN_SECONDS``.

    Parks: in that case (``sleep``). From: anywhere; no-op where parking cannot work. Raises: Cancelled, Expired.
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
    """Yield as ``yield_if_due`` does, but keep a cancel pending, because an operation is unfinished.

    Returns: whether the caller has yielded.
    """
    me = waiter_that_is_due()
    if me is None or not is_turn_over(me) or not may_yield(me):
        return False
    me.scheduler._go_around(me, me.wake_queue)
    return True


def waiter_that_is_due() -> Any:
    """Return the caller if the last stored deadline has passed, else None."""
    me = running_waiter()
    return me if me is not None and me.scheduler.clock() >= me.scheduler.turn_ends_at else None


def end_turn(me: Any) -> None:
    """Yield if the expired deadline belongs to the caller's turn, else store a deadline for this turn.

    Parks, raises: the same as ``yield_if_due``.
    """
    if is_turn_over(me) and may_yield(me):
        me.scheduler._end_stretch()
        sleep(0)


def is_turn_over(me: Any) -> bool:
    """Store the next deadline. Returns: whether the expired deadline belongs to the caller's turn."""
    scheduler = me.scheduler
    scheduler.turn_ends_at = scheduler.clock() + TURN_SECONDS
    former, scheduler._turn = scheduler._turn, scheduler.count_switches()
    return bool(former == scheduler._turn)
