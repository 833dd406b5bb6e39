"""Blocking connections of psycopg (3) in a patched program: ``install()`` makes them wait with ``select``, not in C.

With its C extension, psycopg itself waits with ``select`` only under gevent, because psycopg recognizes no other patch
of ``select``. In an unpatched program, use ``AsyncConnection`` with ``dhaga.await_``.
"""

from __future__ import annotations

from typing import Any

from psycopg import waiting

__all__ = ["install", "uninstall"]

former: list[Any] = []
"""The wait function that ``uninstall`` restores."""


def install() -> None:
    """Make all connections wait with ``waiting.wait_poll``, which parks if ``select`` is patched."""
    if not former:
        former.append(waiting.wait)
        waiting.wait = waiting.wait_poll


def uninstall() -> None:
    """Restore the previous wait function."""
    if former:
        waiting.wait = former.pop()
