"""Randomness comes from the seed."""

from __future__ import annotations

import os
import random
import secrets
import ssl
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from os import urandom as bound_urandom
from types import SimpleNamespace

import pytest

from dhaga.simulation import Simulation
from dhaga.simulation._standard import standard

DRAWS: dict[str, Callable[[], object]] = {
    "random": random.random,
    "an own generator": lambda: random.Random().random(),
    "the system's generator": lambda: random.SystemRandom().random(),
    "urandom": lambda: os.urandom(8),
    "a bound name": lambda: bound_urandom(8),
    "getrandom": lambda: os.getrandom(8),
    "secrets": lambda: secrets.token_hex(),
    "a choice of secrets": lambda: secrets.choice(range(10**9)),
    "a new seed of the module": lambda: (random.seed(), random.random()),
    "uuid1": uuid.uuid1,
    "uuid4": uuid.uuid4,
    "TLS": lambda: ssl.RAND_bytes(8),
    "a temporary name": lambda: next(tempfile._get_candidate_names()),  # type: ignore[attr-defined]
}


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


def drawn(seed: int, name: str) -> object:
    with Simulation(seed):
        return DRAWS[name]()


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_the_same_for_a_seed_and_another_for_another(name: str) -> None:
    assert drawn(1, name) == drawn(1, name) != drawn(2, name)


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 has uuid6() and uuid7()")
@pytest.mark.parametrize("name", ["uuid6", "uuid7"])
def test_an_ordered_uuid_is_that_of_the_seed_whatever_came_before(name: str) -> None:
    def drawn_uuid(seed: int) -> object:
        new = getattr(uuid, name)
        new()
        with Simulation(seed):
            return new()

    assert drawn_uuid(1) == drawn_uuid(1) != drawn_uuid(2)


def test_the_names_of_threads_begin_anew() -> None:
    for _ in range(2):
        with Simulation(0):
            assert threading.Thread().name == "Thread-1"


def test_the_state_of_random_is_given_back() -> None:
    state = random.getstate()
    with Simulation(0):
        random.random()
    assert random.getstate() == state


def test_the_schedule_does_not_change_what_the_program_draws() -> None:
    seen = []
    for strategy in ("fifo", "random"):
        with Simulation(5, strategy=strategy):
            seen.append(os.urandom(8))
    assert seen[0] == seen[1]


def test_a_generator_with_a_seed_of_its_own_keeps_it() -> None:
    with Simulation(0):
        inside = random.Random(7).random()
    assert inside == random.Random(7).random()


def test_an_import_of_numpy_does_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    drawn_without = drawn(1, "random")
    fake = SimpleNamespace(random=SimpleNamespace(seed=seeds.append))
    monkeypatch.setitem(sys.modules, "numpy", fake)
    assert drawn(1, "random") == drawn_without and len(seeds) == 1


def test_the_search_for_a_temporary_folder_does_not_change_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    known = drawn(1, "a temporary name")
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert drawn(1, "a temporary name") == known
