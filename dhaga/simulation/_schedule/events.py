"""The events of a run: why a member (``members.py``) stopped, and which one ran next. Their hash identifies the run."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from .members import Members

KEPT = 200
"""The number of most recent events that a run keeps by default."""

FD = re.compile(r"\bfd (\d+)")
"""The pattern of an fd in the reason of a park. The fd's number is not hashed: it depends on files opened before."""


Shown = str | tuple[object, ...]
"""A text, or the parts of a text. The parts are joined only if the text is read."""


class Event(NamedTuple):
    """One event: ``member`` did ``what``. At ``time`` the member ``following`` began to run (-1: no member).

    ``began``: the time at which the turn of ``member`` began; None: the turn began at ``time``.
    """

    time: float
    member: int
    what: str
    following: int = -1
    began: float | None = None

    def words(self, members: Members, began_at: float, times: int = 1) -> str:
        """Return the event as a line of text. Times are in seconds since ``began_at``, the start of the run."""
        began = self.time if self.began is None else self.began
        line = f"{began - began_at:11.6f}  {members.named(self.member)} {self.what}"
        if self.following >= 0:
            line += f"; {members.named(self.following)} runs"
            line += f" at {self.time - began_at:.6f}" if began < self.time else ""
        return line if times == 1 else f"{line} ({times} times)"


@lru_cache(1 << 14)
def without_fds(what: str) -> str:
    """Return an event's text without the numbers of fds, for the hash.

    Results are cached, because each park at a socket calls this function, and computing a result takes 0.7 µs.
    """
    return FD.sub("fd", what)


class Log:
    """The events of a run. ``keep``: the number of most recent events to keep; None: keep all."""

    def __init__(self, keep: int | None = KEPT) -> None:
        # Plain tuples, because few events are read, and making an Event takes 0.3 µs.
        self.last: deque[tuple[float, int, Shown, int, float | None]] = deque(maxlen=keep)
        self.count = 0
        self.digest = blake2b(digest_size=8)
        # The time of the last event, also as text: formatting a time takes 0.8 µs, and many events have the same time.
        self.time = 0.0
        self.time_text = ""

    def remark(self, time: float, member: int, shown: Shown) -> None:
        """Add a text that only reports show, such as the size of a message. The text does not count as an event."""
        self.last.append((time, member, shown, -1, None))

    def add(
        self,
        time: float,
        member: int,
        what: str,
        following: int = -1,
        shown: Shown | None = None,
        began: float | None = None,
    ) -> None:
        """Add an event. For reports only: ``shown``, the event's text; ``began``, the start of the member's turn."""
        self.last.append((time, member, shown or what, following, began))
        self.count += 1
        if "fd " in what:
            what = without_fds(what)
        if time != self.time or not self.time_text:
            self.time, self.time_text = time, f"{time:.9f}"
        text = f"{self.time_text} {member} {what} {following}\n"
        self.digest.update(text.encode(errors="surrogateescape"))  # a file name may be no UTF-8

    @property
    def kept(self) -> list[Event]:
        """The events that are kept, the oldest first."""
        return [
            Event(time, member, what if isinstance(what, str) else "".join(map(str, what)), following, began)
            for time, member, what, following, began in self.last
        ]

    @property
    def hash(self) -> str:
        """The hash of all events so far, as 16 hexadecimal digits."""
        return self.digest.hexdigest()


LONGEST_LOOP = 4
"""The longest loop that ``folded`` finds, as the number of events in one turn. A report shows only one turn of such a
loop.
"""


def folded(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return the events, each with the number of turns of its loop. Of each loop, return only the last turn.

    A loop is at least three equal turns in a row. An event outside a loop has the number 1.
    """
    found: list[tuple[Event, int]] = []
    place = 0
    while place < len(events):
        size, turns = max(((size, turns_of(events, place, size)) for size in range(1, LONGEST_LOOP + 1)), key=saved)
        if turns < 3:
            size, turns = 1, 1
        place += size * turns
        found += [(event, turns) for event in events[place - size : place]]
    return found


def saved(loop: tuple[int, int]) -> int:
    size, turns = loop
    return size * (turns - 1)


def turns_of(events: Sequence[Event], first: int, size: int) -> int:
    """Return the number of times that the ``size`` events at ``first`` occur in a row. Clock times are not compared."""
    turn = [event[1:4] for event in events[first : first + size]]
    turns = 0
    while turn and [event[1:4] for event in events[first + turns * size : first + (turns + 1) * size]] == turn:
        turns += 1
    return turns
