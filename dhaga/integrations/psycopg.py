"""psycopg (3), the blocking connections, in a patched program: ``install()`` has them wait by ``select``, not in C.

psycopg does so by itself where it knows who has patched ``select``: that is gevent alone. For a program that is not
patched there is ``AsyncConnection``, by ``dhaga.await_``.
"""

from __future__ import annotations

from typing import Any

from psycopg import waiting

__all__ = ["install", "uninstall"]

former: list[Any] = []
"""What ``uninstall`` puts back."""


def install() -> None:
    """Have all connections wait by ``waiting.wait_poll``, which parks where ``select`` is patched."""
    if not former:
        former.append(waiting.wait)
        waiting.wait = waiting.wait_poll


def uninstall() -> None:
    """Put back what was there before ``install``."""
    if former:
        waiting.wait = former.pop()
