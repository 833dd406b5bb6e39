"""MariaDB Connector/Python (``mariadb``) on dhagas: ``install()`` makes its connections park where it would wait in C.

A query in the text protocol is sent, the dhaga parks until the server answers, and the answer is read. Commits,
rollbacks and other commands of a connection do the same. What has no such halves runs in an OS thread while its caller
is parked (``dhaga.offload``): the connect, ``ping``, ``reset``, ``change_user``, ``reconnect``, prepared and bulk
statements, further results, and the sending of a long query. A cancel waits for the end of such a call, because its
thread uses the connection; the connect is an exception. The rows of a result are read in C right after its first
bytes: over a slow line a large result blocks.
As in threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). If the wait ends by a cancel or a
timeout, the connection is cut off, because the next query would get this answer.
Under ``dhaga.monkey.patch`` a post-import hook installs it as soon as mariadb is imported.
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
"""Characters from which a query may not fit into the socket's buffer, so that sending it waits for the server."""

_standard_init = Connection.__init__


def install() -> None:
    """Make all connections of the process park, open ones included. A plain OS thread blocks as before."""
    replaced.install()


def uninstall() -> None:
    """Restore the standard methods."""
    replaced.uninstall()


# ---- the methods


def connect(self: Any, *args: Any, **options: Any) -> None:
    """Connect. Parks: until then (``offload``)."""
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
    """Wait for the first byte of an answer. Parks: until it comes, or the read timeout of the connection is over."""
    if parking_waiter() is not None:
        answers(connection._get_socket(), getattr(connection, "_dhaga_read_timeout", None))


def execute_text(self: Any, query: Any) -> Any:
    """Send a query. Parks: while a long one is sent (``offload``)."""
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
