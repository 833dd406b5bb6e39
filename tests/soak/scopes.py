"""Trees of scopes: none is left before its children have ended, whatever strikes them, and each `finally` runs."""

from __future__ import annotations

import time

import dhaga
from tests.soak.attempts import Attempt, Scenario
from tests.soak.excuses import leaves

DEPTH = 3
CHILDREN = 4
"""Of a scope, at most."""

LATE = 5.0
"""Seconds by which a scope with a timeout may be left late: the machine is busy."""


class Planned(Exception):
    """What a child is to raise."""


class Scopes(Scenario):
    """Scopes within scopes, that end well, fail, time out, are cancelled from within or from outside."""

    name = "scopes"
    width = 4

    def attempt(self, attempt: Attempt) -> None:
        Tree(attempt).grow(DEPTH)


class Tree:
    """What one attempt makes: scopes with children that make scopes."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.choose = attempt.choose

    def grow(self, depth: int) -> None:
        """Make a scope and leave it, in one of the ways that there are."""
        timeout = self.choose.choice((None, None, 0.0, 0.002, 0.02))
        began = time.monotonic()
        scope = self.choose.choice((dhaga.Scope, dhaga.move_on_after, dhaga.fail_after))(timeout, f"soak {depth}")
        children: list[dhaga.Dhaga[None]] = []
        try:
            with scope:
                for _ in range(self.choose.randint(0, CHILDREN)):
                    children.append(scope.spawn(self.live, depth - 1))
                self.live(0)
                if self.choose.random() < 0.2:
                    scope.cancel("from within")
        except (Planned, TimeoutError, BaseExceptionGroup) as error:
            if not all(isinstance(leaf, (Planned, TimeoutError)) for leaf in leaves(error)):
                raise
        finally:
            self.must_have_ended(scope, children)
        if timeout is not None and time.monotonic() - began > timeout + LATE:
            raise AssertionError(f"{scope!r} of {timeout} s was left after {time.monotonic() - began:.1f} s")
        self.attempt.scenario.done()

    def must_have_ended(self, scope: dhaga.Scope, children: list[dhaga.Dhaga[None]]) -> None:
        left = [child for child in children if child.is_alive()]
        if left or scope._children:
            self.attempt.run.ledger.fail(f"{scope!r} was left before {left or list(scope._children)}")

    def live(self, depth: int) -> None:
        """Be a child: sleep, raise, or have children. It may be struck by a cancel."""
        with self.attempt.victim():
            fate = self.choose.random()
            if depth and fate < 0.4:
                self.grow(depth)
            elif fate < 0.5:
                raise Planned
            elif fate < 0.6:
                dhaga.race(self.nap, self.nap)
            else:
                self.nap()

    def nap(self) -> None:
        dhaga.sleep(self.choose.random() * 0.004)
