"""Scenarios, and the attempts that they are made of: each in a dhaga of its own, which trouble may strike anywhere.

An attempt ends well, or by a cancel of ours, or by an error that a trouble explains (``excuses.py``), and in time; its
``finally`` runs in any case. Everything else is a broken invariant.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dhaga
from dhaga import socket
from tests.soak.excuses import BY_US, leaves

if TYPE_CHECKING:
    from tests.soak.places import Place
    from tests.soak.run import Run

DEADLINE = 20.0
"""Seconds that an attempt may take. On two cores half of them take 0.2 s, as all are busy; slow readers up to 2.2."""


class Scenario:
    """One kind of load: ``width`` dhagas at each place make attempts, one after the other."""

    name = ""
    width = 4

    def __init__(self, run: Run) -> None:
        self.run = run
        self.servers: list[Any] = []

    def open(self, place: Place) -> None:
        """Start what is needed at a place. From: the main code."""

    def attempt(self, attempt: Attempt) -> None:
        """Do it once. From: a dhaga of the attempt's own."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what was started, once the attempts have ended. From: the main code."""
        for server in self.servers:
            server.stop(DEADLINE)

    def keep(self, place: Place, number: int) -> None:
        """Make attempts until the run is over, or has failed. From: a dhaga of the place."""
        choose = random.Random(f"{self.run.seed} {self.name} {place.name} {number}")
        while not (self.run.over or self.run.ledger.failed.is_set()):
            Attempt(self, place, choose).make()

    def done(self, n: int = 1) -> None:
        """Count operations."""
        self.run.ledger.operations.add(self.name, n)


class Attempt:
    """One attempt: who makes it, with what choices, since when."""

    def __init__(self, scenario: Scenario, place: Place, choose: random.Random) -> None:
        self.scenario = scenario
        self.run = scenario.run
        self.place = place
        self.choose = choose
        self.began = time.monotonic()
        self.entered = self.left = 0

    def make(self) -> None:
        """Have it made, and look what has come of it."""
        worker = dhaga.spawn(self.body, name=f"{self.scenario.name} at {self.place.name}")
        fail = self.run.ledger.fail
        try:
            worker.result(DEADLINE)
        except dhaga.Cancelled as error:
            if error.reason != BY_US:
                fail(f"{worker!r} was cancelled, but not by us", error)
        except BaseException as error:
            why = "ended by an error that nothing explains"
            fail(f"{worker!r} {f'has not ended in {DEADLINE} s' if worker.is_alive() else why}", error)
        if self.entered != self.left and not worker.is_alive():
            fail(f"{self.entered - self.left} blocks of {worker!r} were left without their `finally`")

    def body(self) -> None:
        with self.victim():
            try:
                self.scenario.attempt(self)
            except (OSError, BaseExceptionGroup) as error:
                if not all(self.run.shortage.explains(leaf, self.began) for leaf in leaves(error)):
                    raise
                self.trouble("errors explained")

    @contextmanager
    def victim(self) -> Iterator[None]:
        """Let the dhaga that runs be struck by cancels in a block, and see that it gets out of it, even if it parks."""
        me: Any = dhaga.current()
        self.entered += 1
        self.run.victims.add(me)
        try:
            yield
        finally:
            self.run.victims.discard(me)
            with dhaga.shield():
                dhaga.sleep(0)
            self.left += 1

    def connect(self, server: Any, talk: Callable[[Any], object]) -> None:
        """Talk to a server over a new connection. That it was cut, or want of descriptors, explains the errors."""
        client = None
        try:
            with socket.socket() as sock:
                sock.bind((server.address[0], 0))  # a failed connect() takes the address away
                client = sock.getsockname()
                sock.connect(server.address)
                talk(sock)
        except (OSError, BaseExceptionGroup) as error:
            if not all(self.explains(leaf, server.address, client) for leaf in leaves(error)):
                raise
            self.trouble("errors explained")

    def explains(self, error: BaseException, server: Any, client: Any) -> bool:
        if not isinstance(error, OSError) or isinstance(error, TimeoutError):
            return False
        return self.run.cuts.has(server, client, self.began) or self.run.shortage.explains(error, self.began)

    def trouble(self, kind: str) -> None:
        """Count a trouble."""
        self.run.ledger.troubles.add(kind)
