"""Results that are on their way to Redis together: who sends, who waits, and whose error it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("celery")

import dhaga
from dhaga.integrations.celery import _redis_batches
from dhaga.integrations.celery._redis_batches import CommandBatcher
from dhaga.testing import VirtualClock, cancel_at_every_park, settle, virtual_clock

TRIP = 1.0  # seconds


class Line:
    """A connection of redis-py's, as far as it is used, with the server at its other end."""

    def __init__(self, store: Store) -> None:
        self.connection = self
        self.store = store
        self.asked: list[tuple[Any, ...]] = []

    def pack_commands(self, commands: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return commands

    def send_packed_command(self, commands: list[tuple[Any, ...]]) -> None:
        assert self in self.store.lines and not self.asked
        self.store.trips.append(len(commands))
        self.asked = commands[:]
        dhaga.sleep(TRIP)
        if self.store.broken:
            raise self.store.broken.pop()

    def read_response(self) -> Any:
        return self.store.obey(*self.asked.pop(0))

    def disconnect(self) -> None:
        self.store.lines.remove(self)


class Store:
    """A backend, its client and its server."""

    redis = SimpleNamespace(ConnectionError=ConnectionError, ResponseError=ValueError)

    def __init__(self) -> None:
        self.expires = 3600
        self.values: dict[str, str] = {}
        self.told: list[str] = []
        self.trips: list[int] = []  # commands of each
        self.lines: list[Line] = []
        self.broken: list[Exception] = []
        self.client = SimpleNamespace(client=self.connect)

    def connect(self) -> Line:
        self.lines.append(Line(self))
        return self.lines[-1]

    def obey(self, name: str, key: str, *rest: Any) -> Any:
        if key == "bad":
            raise ValueError(f"{name} of a bad key")
        if name == "GET":
            return self.values.get(key)
        if name == "PUBLISH":
            self.told.append(f"{key}={rest[0]}")
        else:
            self.values[key] = f"{rest[-1]} {name}{rest[:-1]}"
        return 1


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def store(clock: VirtualClock) -> Store:
    return Store()


@pytest.fixture
def ways(store: Store) -> CommandBatcher:
    return CommandBatcher(store)


def test_a_value_that_is_set_is_told_and_can_be_got(store: Store, ways: CommandBatcher) -> None:
    def use() -> tuple[Any, Any]:
        ways.set("a", "1")
        ways.set("b", "2", 5)
        ways.set("c", "3", 0)
        return ways.get("a"), ways.get("none")

    assert dhaga.spawn(use).result() == ("1 SETEX(3600,)", None)
    assert store.values["b"] == "2 SETEX(5,)" and store.values["c"] == "3 SET()"
    assert store.told == ["a=1", "b=2", "c=3"]
    assert store.trips == [2, 2, 2, 1, 1]


def test_who_comes_while_a_batch_is_under_way_shares_the_next_one(
    store: Store, ways: CommandBatcher, clock: VirtualClock
) -> None:
    first = dhaga.spawn(ways.set, "first", "x")
    settle()
    dhagas = [dhaga.spawn(ways.set, f"key {n}", str(n)) for n in range(100)]
    for each in (first, *dhagas):
        each.result()
    assert set(store.values) == {"first", *(f"key {n}" for n in range(100))} and len(store.told) == 101
    assert store.trips == [2, 200] and clock() == 2 * TRIP


def test_a_batch_has_no_more_than_it_may(store: Store, ways: CommandBatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_redis_batches, "MAX_BATCH_COMMANDS", 4)
    monkeypatch.setattr(_redis_batches, "MAX_BATCH_BYTES", 1000)
    dhagas = [dhaga.spawn(ways.get, f"key {n}") for n in range(10)]
    dhagas += [dhaga.spawn(ways.set, "large", "x" * size) for size in (200, 200, 200, 5000, 1)]
    for each in dhagas:
        each.result()
    assert store.trips == [4, 4, 2 + 2 * 2, 2 * 1, 2 * 1, 2 * 1]


def test_an_error_of_one_is_not_that_of_the_others(store: Store, ways: CommandBatcher) -> None:
    first, bad, good = (dhaga.spawn(ways.get, "x"), dhaga.spawn(ways.set, "bad", "1"), dhaga.spawn(ways.set, "a", "1"))
    with pytest.raises(ValueError, match="SETEX of a bad key"):
        bad.result()
    assert (first.result(), good.result(), store.told) == (None, None, ["a=1"])


def test_an_error_of_the_connection_is_that_of_all_who_shared_it(store: Store, ways: CommandBatcher) -> None:
    store.broken = [ConnectionError("lost")]

    def outcome() -> str:
        with pytest.raises(ConnectionError) as caught:
            ways.get("x")
        return str(caught.value)

    dhagas = [dhaga.spawn(outcome) for _ in range(3)]
    settle()
    late = dhaga.spawn(ways.set, "a", "1")
    assert [each.result() for each in dhagas] == ["lost"] * 3
    late.result()
    assert store.told == ["a=1"] and not ways.pending and len(store.lines) == 1


def test_a_connection_that_was_lost_meanwhile_is_made_anew(store: Store, ways: CommandBatcher) -> None:
    ways.set("a", "1")
    store.broken = [ConnectionError("while it was idle")]
    ways.set("b", "1")
    store.broken = [ConnectionError("and again"), ConnectionError("while it was idle")]
    with pytest.raises(ConnectionError, match="and again"):
        ways.set("c", "1")
    ways.set("d", "1")
    assert store.told == ["a=1", "b=1", "d=1"] and len(store.lines) == 1


def test_who_is_cancelled_takes_nobody_along(store: Store, ways: CommandBatcher) -> None:
    under_way = [dhaga.spawn(ways.set, name, "1") for name in "ab"]
    settle()
    due = [dhaga.spawn(ways.set, name, "1") for name in "cd"]
    settle()
    under_way[0].cancel()
    due[0].cancel()
    under_way[1].result()
    due[1].result()
    assert not under_way[0].is_alive() and not due[0].is_alive()
    assert store.told == ["a=1", "b=1", "c=1", "d=1"]


def test_with_the_courier_all_orders_end(store: Store, ways: CommandBatcher) -> None:
    dhagas = [dhaga.spawn(ways.set, name, "1") for name in "abc"]
    settle()
    assert ways.sender is not None
    ways.sender.cancel("its thread ends")
    for each in dhagas:
        with pytest.raises(dhaga.Cancelled, match="its thread ends"):
            each.result()
    assert not ways.pending and not store.lines
    assert dhaga.spawn(ways.get, "a").result(30) is None


def test_whoever_is_cancelled_wherever_the_others_get_what_they_asked_for() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        store = Store()
        ways = CommandBatcher(store)
        others = [dhaga.spawn(ways.set, name, "1") for name in "ab"]
        victim = dhaga.spawn(ways.set, "victim", "1")
        others.append(dhaga.spawn(ways.set, "c", "1"))

        def check() -> None:
            for each in others:
                each.result()
            assert {"a=1", "b=1", "c=1"} <= set(store.told) and not ways.pending and ways.sender is None

        return victim, check

    assert cancel_at_every_park(scenario)
