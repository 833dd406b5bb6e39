"""The closed loop: so many users, each of whom runs scenarios one after the other, with a pause between two."""

from __future__ import annotations

import dhaga
from dhaga.threading import Event

from .load import Load


class ClosedLoop:
    """Users as dhagas."""

    def __init__(self, load: Load, scope: dhaga.Scope, pause: float = 0.0) -> None:
        self.load = load
        self.scope = scope
        self.pause = pause
        self.over = Event()

    def come(self, users: int, seconds: float, ramp: float = 0.0) -> None:
        """Let users come one by one within the ramp, then stay for so long. The book is a new one from its end on.

        Parks: `sleep`.
        """
        clock = self.load.clock
        began = clock()
        for number in range(users):
            if (pause := began + number * ramp / users - clock()) > 0:
                dhaga.sleep(pause)
            self.scope.spawn(self.stay)
        dhaga.sleep(max(0.0, began + ramp - clock()))
        self.load.new_book()
        dhaga.sleep(seconds)
        self.load.book.close()
        self.over.set()

    def stay(self) -> None:
        """Be a user: run, pause, and run again."""
        user = self.load.user()
        while not self.over.is_set():
            self.load.book.due.add()
            self.load.run(user)
            if self.pause:
                self.over.wait(self.pause)
            else:
                dhaga.sleep(0)  # who fails at once has not parked: the others are to have their turn
        self.load.idle.append(user)
