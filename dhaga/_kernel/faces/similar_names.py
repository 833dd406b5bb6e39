"""The search for the known name that a misspelled name resembles most."""

from __future__ import annotations

from collections.abc import Iterable

SIMILAR = 0.75
"""Minimum similarity of a suggestion, from 0 to 1. At 0.7, ``--root-path`` would suggest ``--no-patch``."""


def most_similar(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar of the known names, or None if no name is similar."""
    from difflib import get_close_matches  # imported late, because few programs contain a misspelled name

    similar = get_close_matches(name, known, n=1, cutoff=SIMILAR)
    return similar[0] if similar else None
