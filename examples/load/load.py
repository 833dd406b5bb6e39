"""What all users share: the scenarios, the book, how runs begin and end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .error_labels import described
from .scenarios import Scenarios
from .statistics import Statistics
from .users import User

PATIENCE = 10.0
"""Seconds for a request as a whole, by default, and at the end for the runs that are under way."""


class NoRequestMade(Exception):
    """Raised if a scenario has made no request, because its repetition would keep all other users from running."""


class Load:
    """A test of one URL by one set of scenarios."""

    def __init__(
        self,
        url: str,
        scenarios: Scenarios,
        new_session: Callable[[], Any],
        timeout: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.scenarios = scenarios
        self.new_session = new_session
        self.timeout = timeout
        self.clock = clock
        self.book = Statistics(clock=clock)
        self.began = clock()
        self.lasting = 0.0
        self.users: list[User] = []
        self.idle: list[User] = []

    def begin(self, seconds: float) -> None:
        """Begin a test that is to take so long, its ramp included."""
        self.began, self.lasting = self.clock(), seconds
        self.new_book()

    @property
    def share(self) -> float:
        """Return the share of the test under way that is over, from 0 to 1."""
        return min(1.0, (self.clock() - self.began) / self.lasting) if self.lasting else 0.0

    def new_book(self) -> Statistics:
        """Begin to count anew. Returns: the new book."""
        self.book = Statistics(self.book.under_way, self.clock)
        return self.book

    def user(self) -> User:
        """Return a user who has nothing to do; the one who had last, whose connections are the freshest."""
        if self.idle:
            return self.idle.pop()
        self.users.append(User(self, len(self.users) + 1))
        return self.users[-1]

    def close(self) -> None:
        """Hang up all connections. Parks: never."""
        for user in self.users:
            user.session.close()

    def run(self, user: User, due: float | None = None) -> None:
        """Let a user run a scenario, and record how that ended; `due`: when it should have begun, if that was told.

        Parks: as the scenario does. Raises: NoRequestMade.
        """
        scenario = self.scenarios.choose()
        user.due, user.trouble, user.measured = due, None, 0
        try:
            scenario(user)
        except Exception as error:
            user.trouble = user.trouble or described(error)
        except BaseException:  # a cancel: the run is cut off
            self.book.cut.add()
            raise
        self.book.end(user.trouble)
        if not user.measured and user.trouble is None:
            raise NoRequestMade(f"scenario {scenario.__name__} made no request: have it call user.get(…) or the like")
