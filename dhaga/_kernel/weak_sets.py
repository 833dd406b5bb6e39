"""WeakSets that other OS threads add to."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")


def members(weak_set: WeakSet[T]) -> list[T]:
    """Return the members alive now. From: any thread; a member that another thread adds meanwhile may be missing.

    A WeakSet is iterated over in Python, so that an addition in between raises "Set changed size during iteration".
    """
    while True:
        try:
            return list(weak_set)
        except RuntimeError:
            continue
