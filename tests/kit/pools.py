"""A pool for tests, and how its calls end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dhaga import testing
from dhaga.futures import CancelledError, Future
from dhaga.pool import Pool

MANY_SIMULATED = 20
"""Number of calls in a simulation, instead of many: each call may be interrupted at a thousand lines."""


def many(calls: int) -> int:
    """Return a number of calls; a smaller one in a simulation, which runs them by many schedules."""
    return calls if testing.shared_clock() is None else MANY_SIMULATED


def outcome(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception(20)
    except CancelledError as error:
        return error


def pooled() -> Iterator[Pool]:
    """Yield a pool to a fixture."""
    with Pool(2, 8) as pool:
        yield pool
