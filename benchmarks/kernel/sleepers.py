"""The common part of the row "100,000 sleeping": who sleeps until when, and whether all really slept at once.

What is wanted is the price of the framework: not the length of the sleeps, and not the easier work in which the first
ones wake while the last ones are still being spawned. So every one wakes at a moment drawn from one second, which
begins `lead` after the start; all are asleep before it does (this is checked, and `lead` doubled until it is true); and
the price is CPU time from the first spawn to the last wake, in which waiting does not count.
"""

import random
from collections.abc import Iterator
from time import monotonic, process_time

LEADS = (3.0, 6.0, 12.0, 24.0)


class Sleepers:
    """Hand out the sleeps and count the wakes of `count` microthreads. Parks: never."""

    def __init__(self, count: int, lead: float) -> None:
        draw = random.Random(count).random
        offsets = [draw() for _ in range(count)]
        self._left = count
        self._first = self._last_start = monotonic() + lead
        self._moments = [self._first + offset for offset in offsets]
        self.cpu_seconds = 0.0
        self._started = process_time()

    def begin_sleep(self) -> float:
        """Return how many seconds the next one sleeps; 0 if its moment has passed, and the group is tried again."""
        self._last_start = now = monotonic()
        return max(0.0, self._moments.pop() - now)

    def end_sleep(self) -> bool:
        """Count one wake. Returns: whether it was the last."""
        self._left -= 1
        if self._left:
            return False
        self.cpu_seconds = process_time() - self._started
        return True

    def all_began(self) -> bool:
        """Return whether the last one has lain down."""
        return not self._moments

    def slept_all_at_once(self) -> bool:
        """Return whether the last one lay down before the first one rose."""
        return self.all_began() and not self._left and self._last_start < self._first


def groups(count: int) -> Iterator[Sleepers]:
    """Yield crowds with longer and longer leads until one slept all at once. Raises: RuntimeError if none did."""
    for lead in LEADS:
        group = Sleepers(count, lead)
        yield group
        if group.slept_all_at_once():
            return
    raise RuntimeError(f"{count} could not be put to sleep within {LEADS[-1]} s")
