"""psycopg (3), the blocking connections, in a patched program: ``install()`` makes them wait by ``select``, not in C.

psycopg does so by itself only under gevent, the one patch of ``select`` that it knows. In an unpatched program use
``AsyncConnection`` with ``dhaga.await_``.
"""

from __future__ import annotations

from typing import Any

from psycopg import waiting

__all__ = ["install", "uninstall"]

former: list[Any] = []
"""The wait function that ``uninstall`` restores."""


def install() -> None:
    """Make all connections wait by ``waiting.wait_poll``, which parks where ``select`` is patched."""
    if not former:
        former.append(waiting.wait)
        waiting.wait = waiting.wait_poll


def uninstall() -> None:
    """Restore the wait function of before ``install``."""
    if former:
        waiting.wait = former.pop()
