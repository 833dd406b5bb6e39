"""A pool for tests, and how its calls end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dhaga.futures import CancelledError, Future
from dhaga.pool import Pool


def outcome(future: Future[Any]) -> BaseException | None:
    try:
        return future.exception(20)
    except CancelledError as error:
        return error


def pooled() -> Iterator[Pool]:
    """Give a pool to a fixture."""
    with Pool(2, 8) as pool:
        yield pool
