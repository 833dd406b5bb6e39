"""MariaDB Connector/Python (``mariadb``) on dhagas: ``install()`` makes connections park where they would wait in C.

A query in the text protocol is split: it is sent, the dhaga parks until the server answers, and the answer is read.
Commits, rollbacks and other commands of a connection are split likewise. Calls that cannot be split run in an OS thread
while their caller is parked (``dhaga.offload``). These are the connect, ``ping``, ``reset``, ``change_user``,
``dump_debug_info``, ``reconnect``, prepared and bulk statements, reading further results, and sending a long query. A
cancelled caller waits for the end of such a call, because the thread uses the connection. A cancelled connect is an
exception: its caller continues at once. The rows of a result are read in C right after the result's first bytes, so a
large result over a slow line blocks the caller's OS thread.
As with threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). If a cancel or a timeout ends
the wait for an answer, the connection is cut off, because the next query would get this answer.
In a patched program, a post-import hook calls ``install()`` as soon as mariadb is imported.
"""

from __future__ import annotations

from typing import Any

from mariadb import _mariadb
from mariadb.connections import Connection
from mariadb.cursors import Cursor

from .._kernel.wait.current import parking_waiter
from .._workers.offload import shared
from ._cut_off import answers
from ._driver_methods import Method, Methods, connect_by, offloaded

__all__ = ["install", "uninstall"]

LONG_QUERY = 1 << 16
"""A query of this length in characters, or more, may exceed the socket's buffer, so that sending waits for the server.
"""

_standard_init = Connection.__init__


def install() -> None:
    """Make calls on all connections park, including open connections. Plain OS threads block as before."""
    replaced.install()


def uninstall() -> None:
    """Restore the standard methods."""
    replaced.uninstall()


# ---- the methods


def connect(self: Any, *args: Any, **options: Any) -> None:
    """Connect to the server. Parks: while connecting (``offload``)."""
    connect_by(_standard_init, self, *args, **options)


def read_response(self: Any) -> Any:
    """Read the answer to a command of a connection. Parks: until the server begins to answer (``poll``)."""
    wait_for_answer(self)
    return _mariadb.connection._read_response(self)


def read_result(self: Any) -> Any:
    """Read the answer to a cursor's query. Parks: until the server begins to answer (``poll``)."""
    wait_for_answer(self.connection)
    return _mariadb.cursor._readresponse(self)


def wait_for_answer(connection: Any) -> None:
    """Wait for the first byte of an answer. Parks: until the byte comes, or the connection's read timeout expires."""
    if parking_waiter() is not None:
        answers(connection._get_socket(), getattr(connection, "_dhaga_read_timeout", None))


def execute_text(self: Any, query: Any) -> Any:
    """Send a query. Parks: while a long query is sent (``offload``)."""
    if len(query) < LONG_QUERY or parking_waiter() is None:
        return _mariadb.cursor._execute_text(self, query)
    return shared.finish(_mariadb.cursor._execute_text, self, query)


METHODS: dict[tuple[type, str], Method] = {
    (Connection, "__init__"): connect,
    (Connection, "_read_response"): read_response,
    (Cursor, "_readresponse"): read_result,
    (Cursor, "_execute_text"): execute_text,
    **{
        (owner, name): offloaded(getattr(standard, name))
        for owner, standard, names in (
            (Connection, _mariadb.connection, ("change_user", "dump_debug_info", "ping", "reconnect", "reset")),
            (Cursor, _mariadb.cursor, ("_execute_binary", "_execute_bulk", "_nextset")),
        )
        for name in names
    },
}
"""The methods that park, by class and name."""

replaced = Methods(METHODS)
