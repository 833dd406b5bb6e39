"""The common part of the row "100,000 sleeping": the times of the wakes, and the check that all slept at once.

The row measures the cost of the framework. The length of the sleeps must not count, and no microthread may wake while
others are still being spawned, because that would be easier. So each wakes at a random moment of one second, which
begins `lead` after the start. The row checks that all sleep before this second, and doubles `lead` until they do. The
cost is CPU time from the first spawn to the last wake, which does not include waiting.
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
        """Return the seconds of the next sleep; 0 if its wake time has passed, and a new group must be tried."""
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
        """Return whether all sleeps have begun."""
        return not self._moments

    def slept_all_at_once(self) -> bool:
        """Return whether the last sleep began before the first wake, and all have ended."""
        return self.all_began() and not self._left and self._last_start < self._first


def groups(count: int) -> Iterator[Sleepers]:
    """Yield groups with longer and longer leads until all sleeps of one overlap. Raises: RuntimeError if none do."""
    for lead in LEADS:
        group = Sleepers(count, lead)
        yield group
        if group.slept_all_at_once():
            return
    raise RuntimeError(f"{count} could not be put to sleep within {LEADS[-1]} s")
