"""Iterators that dhagas share: one step at a time, or the whole stream for each."""

from __future__ import annotations

import sys
import threading as standard
from collections.abc import Callable, Iterator

import pytest

import dhaga
from dhaga import threading
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.parking import parked, victim


def slow(n: int) -> Iterator[int]:
    for number in range(n):
        dhaga.sleep(1)
        yield number


def test_a_generator_that_parks_is_shared_by_dhagas() -> None:
    with virtual_clock():
        bare, shared = slow(9), threading.serialize_iterator(slow(9))
        parked(next, bare)
        with pytest.raises(ValueError, match="already executing"):
            next(bare)
        dhagas = [dhaga.spawn(next, shared) for _ in range(9)]
        assert [d.result() for d in dhagas] == [*range(9)]  # in the order in which they came
        with pytest.raises(StopIteration):
            next(shared)
        settle()


def test_a_cancelled_consumer_takes_no_item_from_the_others() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        shared = threading.serialize_iterator(range(3))
        got: list[int] = []

        def consumes() -> None:
            got.append(next(shared))

        def check() -> None:
            assert [*got, *shared] == [0, 1, 2]

        shared._lock.acquire()
        consumer = victim(consumes)
        dhaga.spawn(shared._lock.release)
        return consumer, check

    # In a simulation of OS threads, the lock may be free before the consumer comes. Windows cannot import simulations.
    simulation = sys.modules.get("dhaga.simulation._base.here")
    assert cancel_at_every_park(scenario) >= (0 if simulation is not None and simulation.running else 1)


def test_the_calls_of_a_generator_are_serialized_too() -> None:
    def echo() -> Iterator[object]:
        got: object = None
        while True:
            try:
                got = yield got
            except KeyError as error:
                got = error

    shared = threading.serialize_iterator(echo())
    assert next(shared) is None and shared.send("a") == "a"
    assert isinstance(shared.throw(KeyError("b")), KeyError)
    shared.close()
    assert [*shared] == []
    with pytest.raises(AttributeError, match="send"):
        threading.serialize_iterator([1]).send(2)


def test_a_decorated_generator_function_makes_serialized_iterators() -> None:
    numbers = threading.synchronized_iterator(slow)
    assert numbers.__name__ == "slow"
    with virtual_clock():
        shared = numbers(4)
        assert sorted(d.result() for d in [dhaga.spawn(next, shared) for _ in range(4)]) == [0, 1, 2, 3]


def test_each_consumer_of_a_tee_gets_all_values_and_each_is_pulled_once() -> None:
    pulled: list[int] = []

    def source() -> Iterator[int]:
        for number in slow(5):
            pulled.append(number)
            yield number

    with virtual_clock():
        dhagas = [dhaga.spawn(list, copy) for copy in threading.concurrent_tee(source(), 3)]
        assert [d.result() for d in dhagas] == [[0, 1, 2, 3, 4]] * 3
    assert pulled == [0, 1, 2, 3, 4]
    assert threading.concurrent_tee([1], 0) == ()
    with pytest.raises(ValueError, match="non-negative"):
        threading.concurrent_tee([1], -1)


def test_plain_threads_and_dhagas_share_an_iterator() -> None:
    shared = threading.serialize_iterator(iter(range(2000)))
    got: list[list[int]] = []
    threads = [standard.Thread(target=lambda: got.append([*shared])) for _ in range(3)]
    for thread in threads:
        thread.start()
    dhagas = [dhaga.spawn(list, shared) for _ in range(3)]
    got += [d.result(60) for d in dhagas]
    for thread in threads:
        dhaga.offload(thread.join)
    assert sorted(number for part in got for number in part) == [*range(2000)]
