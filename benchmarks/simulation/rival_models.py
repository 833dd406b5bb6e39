"""Small models from the documentation of frontrun and interleave-test, in one form for all tools.

A model has a ``setup`` that creates its state, ``workers`` that are called with the state, each in a thread, and an
``invariant`` of the state after the workers. The model of a deadlock has no invariant.
"""

from __future__ import annotations

import itertools
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Model:
    """A model. ``packages``: packages whose code is also interleaved."""

    setup: Callable[[], Any]
    workers: list[Callable[[Any], Any]]
    invariant: Callable[[Any], bool] = lambda _: True
    packages: list[str] = field(default_factory=list)


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def add_in_two_lines(self) -> None:
        seen = self.value
        self.value = seen + 1

    def add_in_a_line(self) -> None:
        self.value += 1


class Table:
    """Three philosophers; each takes the fork at its seat, and then the next one."""

    def __init__(self, seats: int = 3) -> None:
        self.forks = [threading.Lock() for _ in range(seats)]


def dine(table: Table, seat: int) -> None:
    with table.forks[seat], table.forks[(seat + 1) % len(table.forks)]:
        pass


class Rooms:
    """The rooms of python-socketio, with two clients that connect to a new namespace."""

    def __init__(self) -> None:
        from socketio.base_manager import BaseManager

        ids = itertools.count()
        self.manager = BaseManager()
        self.manager.server = types.SimpleNamespace(eio=types.SimpleNamespace(generate_id=lambda: str(next(ids))))
        self.sessions: list[str] = []

    def connect(self, client: str) -> None:
        self.sessions.append(self.manager.connect(client, "/chat"))

    def are_connected(self) -> bool:
        return all(self.manager.is_connected(session, "/chat") for session in self.sessions)


MODELS = {
    "lost update in two lines": Model(Counter, [Counter.add_in_two_lines] * 2, lambda counter: counter.value == 2),
    "lost update in a line": Model(Counter, [Counter.add_in_a_line] * 2, lambda counter: counter.value == 2),
    "two locks in different orders": Model(lambda: Table(2), [partial(dine, seat=seat) for seat in (0, 1)]),
    "three dining philosophers": Model(Table, [partial(dine, seat=seat) for seat in (0, 1, 2)]),
    "python-socketio 5.16.3: a lost client": Model(
        Rooms,
        [lambda rooms: rooms.connect("one"), lambda rooms: rooms.connect("two")],
        Rooms.are_connected,
        ["socketio", "bidict"],
    ),
}
