"""Items between their hand-over and the moment when the woken waiter runs and takes them.

Among OS threads such an item is still in the queue. ``count_handed_over`` finds it among the woken waiters, so that a
hand-over itself sets only a flag. Rejected: a counter in each queue, which the hand-over and the wake would change.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..wait.thread_waiter import os_threads
from ..wait.waiter import TIMED_OUT
from ..weak_sets import members
from .attachment import schedulers


class Waiters(Protocol):
    """The place of waiters that wait for items."""

    @property
    def reason(self) -> str:
        """The reason of their parks."""


def count_handed_over(queue: Waiters) -> int:
    """Return the number of waiters of a queue that were woken with a value and have not run since.

    A waiter sets its ``wait_target`` to None when it runs. Otherwise it would count again if it yields, which puts it
    among the woken waiters.
    """
    count = sum(is_served(waiter, queue) for waiter in members(os_threads))
    for scheduler in list(schedulers):
        count += sum(is_served(waiter, queue) for waiter in scheduler.woken())
    return count


def is_served(waiter: Any, queue: Waiters) -> bool:
    """Return whether a waiter was woken with a value of this queue, and not by a timeout or an error."""
    return (
        getattr(waiter, "wait_target", None) is queue
        and not waiter.parked
        and waiter.park_reason == queue.reason
        and waiter._error is None
        and waiter._value is not TIMED_OUT
    )
