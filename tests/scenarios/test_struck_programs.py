"""Random programs of loops, blocks and calls lose no permit and no item when a cancel comes at their events."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga.queue import Queue
from dhaga.testing import cancel_at_event
from dhaga.threading import Semaphore
from tests._kernel.test_preemption_strikes import needs_events

PERMITS, ITEMS, DEPTH = 20, 200, 4

STATEMENTS = [
    "with permits:\n{}",
    "permits.acquire()\ntry:\n{}finally:\n    permits.release()\n",
    "for _ in range(3):\n{}",
    "def inner():\n{}inner()\n",
    "try:\n{}except KeyError:\n    pass\n",
    "with held(permits):\n{}",
]
LEAVES = [
    "got.append(items.get())\n",
    "got.append(int(taken(items)))\n",
    "item = items.get()\ngot.append(item)\n",
    "got.extend([items.get()])\n",
    "compute()\n",
    "sum(each for each in range(5))\n",
]


def block(draw: random.Random, depth: int) -> str:
    """Return the text of one to three statements."""
    parts = []
    for _ in range(draw.randint(1, 3)):
        if depth and draw.random() < 0.6:
            parts.append(draw.choice(STATEMENTS).format(textwrap.indent(block(draw, depth - 1), "    ")))
        else:
            parts.append(draw.choice(LEAVES))
    return "".join(parts)


HELPERS = """
import contextlib

def compute():
    for each in range(4):
        each * each

def taken(items):
    return items.get()

@contextlib.contextmanager
def held(permits):
    permits.acquire()
    try:
        yield
    finally:
        permits.release()

def work(permits, items, got):
"""


def program(seed: int) -> tuple[str, Callable[..., None]]:
    text = HELPERS + textwrap.indent(block(random.Random(seed), DEPTH), "    ")
    names: dict[str, Any] = {}
    exec(compile(text, f"program {seed}", "exec"), names)
    return text, names["work"]


def events(scenario: Any, draw: random.Random) -> Iterator[int]:
    count = cancel_at_event(scenario, 10**9)
    yield from sorted(draw.sample(range(1, count + 1), min(count, 25)))


@needs_events
@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 200))])
def test_a_random_program_loses_nothing_at_its_events(seed: int) -> None:
    text, work = program(seed)

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        permits, items, got = Semaphore(PERMITS), Queue[int](), list[int]()
        for item in range(ITEMS):
            items.put(item)

        def check() -> None:
            free = sum(permits.acquire(blocking=False) for _ in range(PERMITS + 1))
            assert free == PERMITS, f"{free} permits are free after\n{text}"
            assert len(got) + items.qsize() == ITEMS, f"an item is lost by\n{text}"

        # Programs with many loops may want more items than there are.
        return dhaga.spawn(lambda: bears_the_end(work, permits, items, got)), check

    for nth in events(scenario, random.Random(seed)):
        cancel_at_event(scenario, nth)


def bears_the_end(work: Callable[..., None], *things: Any) -> None:
    with dhaga.move_on_after(1):
        work(*things)
