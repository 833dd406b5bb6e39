"""Hand-overs to waiters that have not run since: ``qsize`` counts the items, and a forked child takes them back.

If the waiters were OS threads, such an item would still be in the queue. ``count_handed_over`` searches the woken
waiters. So a hand-over only sets a flag of the queue. Rejected: a counter in each queue, which every hand-over and
every wake would change.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..wait.thread_waiter import os_threads
from ..wait.wait_queue import WaitQueue
from ..wait.waiter import NOT_CANCELLABLE, TIMED_OUT
from ..weak_sets import members
from .attachment import schedulers
from .uncaught import logger


class Waiters(Protocol):
    """A queue of waiters that wait for items."""

    @property
    def reason(self) -> str:
        """The reason of the waiters' parks."""


def count_handed_over(queue: Waiters) -> int:
    """Return the number of waiters of a queue that were woken with a value and have not run since.

    The end of a park resets ``wait_target``. A yield also puts a waiter among the woken ones. So a waiter that has
    taken its item and then yields does not count again.
    """
    count = sum(is_served(waiter, queue) for waiter in members(os_threads))
    for scheduler in list(schedulers):
        count += sum(is_served(waiter, queue) for waiter in scheduler.woken())
    return count


def is_served(waiter: Any, queue: Waiters) -> bool:
    """Return whether a waiter was woken with a value from this queue, and not with a timeout or an error."""
    return (
        getattr(waiter, "wait_target", None) is queue
        and not waiter.parked
        and waiter.park_reason == queue.reason
        and waiter._error is None
        and waiter._value is not TIMED_OUT
    )


def take_back_hand_overs(survivors: tuple[Any, ...]) -> None:
    """In a forked child, take back hand-overs to waiters that have not run since, and never run in the child.

    The locks become free, and the items return to their queues, as if the waiters were OS threads. ``survivors``: the
    waiters that continue in the child.
    """
    woken = [waiter for scheduler in list(schedulers) for waiter in scheduler.woken()] + members(os_threads)
    # The item that was handed over first becomes the first item of its queue again.
    for waiter in reversed(woken):
        if any(waiter is survivor for survivor in survivors):
            continue
        target: Any = getattr(waiter, "wait_target", None)
        if isinstance(target, WaitQueue) and is_served(waiter, target):
            giver = target.owner
        elif target is NOT_CANCELLABLE and not waiter.parked:
            giver = waiter._value  # a lock that was handed over after a Condition's wait
        else:
            continue
        take_back = getattr(type(giver), "_take_back_from_", None)
        if take_back is not None:
            try:
                take_back(giver, waiter)
            except Exception:  # an error of a queue's own _put()
                logger.exception("in a forked child: %r", giver)
