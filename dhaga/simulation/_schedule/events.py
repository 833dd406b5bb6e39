"""The events of a run: who ran, and why the one before stopped. Their running hash names the run."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from .members import Members

KEPT = 200
"""Events that a run keeps by default: the last ones."""

FD = re.compile(r"\bfd \d+")
"""Numbers of fds in reasons: they depend on the files that the process had open before."""


Shown = str | tuple[object, ...]
"""A text, or its parts, which are only joined if it is read."""


class Event(NamedTuple):
    """One event: at ``time``, ``member`` did ``what``, and ``following`` ran next (-1: none)."""

    time: float
    member: int
    what: str
    following: int = -1

    def words(self, members: Members, began_at: float, times: int = 1) -> str:
        """Return the event as a line of text, with the seconds since the run began."""
        line = f"{self.time - began_at:11.6f}  {members.named(self.member)} {self.what}"
        line = line if self.following < 0 else f"{line}; {members.named(self.following)} runs"
        return line if times == 1 else f"{line} ({times} times)"


@lru_cache(1 << 14)
def without_fds(what: str) -> str:
    """Return the text of an event for its hash. Kept, as it takes 0.7 µs, and each park at a socket has such a text."""
    return FD.sub("fd", what)


class Log:
    """The events of a run; ``keep`` is the number kept, None for all."""

    def __init__(self, keep: int | None = KEPT) -> None:
        # Plain tuples, of which few are read: an Event takes 0.3 µs.
        self.last: deque[tuple[float, int, Shown, int]] = deque(maxlen=keep)
        self.count = 0
        self.digest = blake2b(digest_size=8)
        # The last time, as text: to write a time takes 0.8 µs, and many events share one.
        self.time = 0.0
        self.time_text = ""

    def remark(self, time: float, member: int, shown: Shown) -> None:
        """Add what only a report shows, such as the size of a message: it is no event of the run."""
        self.last.append((time, member, shown, -1))

    def add(self, time: float, member: int, what: str, following: int = -1, shown: Shown | None = None) -> None:
        """Add an event. ``shown``: its text in reports."""
        self.last.append((time, member, shown or what, following))
        self.count += 1
        if "fd " in what:
            what = without_fds(what)
        if time != self.time or not self.time_text:
            self.time, self.time_text = time, f"{time:.9f}"
        self.digest.update(f"{self.time_text} {member} {what} {following}\n".encode())

    @property
    def kept(self) -> list[Event]:
        """The events that are kept, the oldest first."""
        return [
            Event(time, member, what if isinstance(what, str) else "".join(map(str, what)), following)
            for time, member, what, following in self.last
        ]

    @property
    def hash(self) -> str:
        """The hash of all events so far, as 16 hexadecimal digits."""
        return self.digest.hexdigest()


LONGEST_LOOP = 4
"""Events of a loop that is shown once."""


def folded(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return events with loops shown once: each of the last turn, and how many times in a row it has come."""
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
    """Return how many times the ``size`` events at ``first`` come in a row; their times may differ."""
    turn = [event[1:] for event in events[first : first + size]]
    turns = 0
    while turn and [event[1:] for event in events[first + turns * size : first + (turns + 1) * size]] == turn:
        turns += 1
    return turns
