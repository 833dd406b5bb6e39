"""Iteration over WeakSets to which other OS threads add members."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakSet

T = TypeVar("T")


def members(weak_set: WeakSet[T]) -> list[T]:
    """Return the living members. From: any thread; a member that another thread adds meanwhile may be missing.

    The iterator of a WeakSet is written in Python; if a thread adds a member meanwhile, the iterator raises "Set
    changed size during iteration".
    """
    while True:
        try:
            return list(weak_set)
        except RuntimeError:
            continue
