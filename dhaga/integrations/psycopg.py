"""Blocking connections of psycopg (3) in a patched program: ``install()`` makes them wait with ``select``, not in C.

With its C extension, psycopg itself waits with ``select`` only under gevent, because psycopg recognizes no other patch
of ``select``. In an unpatched program, use ``AsyncConnection`` with ``dhaga.await_``.
A deadline or a cancel that interrupts a query closes the connection, as with psycopg2. Otherwise the connection would
refuse all further queries, because the answer to the first query is unread.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from psycopg import Connection, waiting
from psycopg.pq import TransactionStatus

__all__ = ["install", "uninstall"]

former: list[Any] = []
"""The functions that ``uninstall`` restores: the wait function, and the method of connections that calls it."""


def install() -> None:
    """Make all connections wait with ``waiting.wait_poll``, which parks if ``select`` is patched."""
    if not former:
        former.extend((waiting.wait, Connection.wait))
        waiting.wait = waiting.wait_poll
        Connection.wait = closing_if_interrupted(Connection.wait)


def uninstall() -> None:
    """Restore the previous functions."""
    if former:
        waiting.wait, Connection.wait = former
        former.clear()


def closing_if_interrupted(standard: Any) -> Any:
    """Return a ``Connection.wait`` that closes the connection if an error from outside interrupts a query."""

    @wraps(standard)
    def wait(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return standard(self, *args, **options)
        except Exception:
            raise
        except BaseException:
            # After a Ctrl-C, psycopg has already cancelled the query.
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise

    return wait
