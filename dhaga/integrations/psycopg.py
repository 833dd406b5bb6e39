"""Blocking connections of psycopg (3) in a patched program: ``install()`` makes them wait with ``select``, not in C.

With its C extension, psycopg itself waits with ``select`` only under gevent, because psycopg recognizes no other patch
of ``select``. In an unpatched program, use ``AsyncConnection`` with ``dhaga.await_``.
A deadline or a cancel that interrupts a query closes the connection, as with psycopg2. Otherwise the connection would
refuse all further queries, because the answer to the first query is unread.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection, waiting
from psycopg.pq import TransactionStatus

from ._driver_methods import closing_if_interrupted

__all__ = ["install", "uninstall"]

former: list[Any] = []
"""The functions that ``uninstall`` restores: the wait function, and the method of connections that calls it."""


def install() -> None:
    """Make all connections wait with ``waiting.wait_poll``, which parks if ``select`` is patched."""
    if not former:
        former.extend((waiting.wait, Connection.wait))
        waiting.wait = waiting.wait_poll
        Connection.wait = closing_if_interrupted(Connection.wait, close_if_unanswered, (Exception,))


def uninstall() -> None:
    """Restore the previous functions."""
    if former:
        waiting.wait, Connection.wait = former
        former.clear()


def close_if_unanswered(connection: Connection[Any]) -> None:
    """Close a connection whose query has no answer yet. After a Ctrl-C, psycopg has already cancelled the query."""
    if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
        connection.pgconn.finish()
