"""The open loop: runs begin when they are due, even if earlier runs have not ended.

No run waits for another run, so a stalled server delays all runs that become due meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from math import sqrt

import dhaga

from .load import Load

MOST = 10_000
"""Maximum number of simultaneous runs. Each holds a connection, about 60 KB."""


def times(rate: float, seconds: float, ramp: float = 0.0) -> Iterator[float]:
    """Give when runs are due, in seconds from the beginning: evenly, at a rate that grows from 0 within the ramp."""
    grown = rate * ramp / 2  # those that are due within the ramp
    for number in count():
        due = sqrt(2 * number * ramp / rate) if number < grown else ramp + (number - grown) / rate
        if due >= ramp + seconds - 1e-9:
            return
        yield due


class OpenLoop:
    """Begins each run in a new dhaga. If `most` runs are in progress, a due run is dropped."""

    def __init__(self, load: Load, scope: dhaga.Scope, most: int = MOST) -> None:
        self.load = load
        self.scope = scope
        self.most = most

    def come(self, rate: float, seconds: float, ramp: float = 0.0) -> None:
        """Let runs begin at a rate. At the end of the ramp, the load gets a new book.

        Late runs (the machine was busy) begin one by one while others have their turns. If they began all at once,
        each would need a new connection, which would delay further runs.
        Parks: `sleep`.
        """
        clock = self.load.clock
        began = clock()
        ramping = ramp > 0
        with dhaga.priority(dhaga.HIGH):  # who is late in starting them is late for all
            for due in times(rate, seconds, ramp):
                if ramping and due >= ramp:
                    ramping = False
                    self.load.new_book()
                dhaga.sleep(max(0.0, began + due - clock()))
                self.begin(began + due)
            if (pause := began + ramp + seconds - clock()) > 0:
                dhaga.sleep(pause)
        self.load.book.close()

    def begin(self, due: float) -> None:
        """Let one run begin, or drop it."""
        book = self.load.book
        book.due.add()
        if book.under_way > self.most:
            book.drop(self.most)
        else:
            self.scope.spawn(self.run, due)

    def run(self, due: float) -> None:
        self.load.book.lateness.note(self.load.clock() - due)
        user = self.load.user()
        self.load.run(user, due)
        self.load.idle.append(user)
