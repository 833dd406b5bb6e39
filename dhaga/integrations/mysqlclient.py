"""mysqlclient (``MySQLdb``) on dhagas: ``install()`` makes its connections park where the C library would wait.

A query is sent, the dhaga parks until the server answers, and the answer is read (``send_query``, ``fileno`` and
``read_query_result`` of the C API). A commit, a rollback and autocommit are queries. What has no such halves runs in an
OS thread while its caller is parked (``dhaga.offload``): the connect, with its name look-up and handshakes, ``ping``,
further results, and the sending of a long query. A cancel waits for the end of such a call, because
its thread uses the connection; the connect is an exception. The rows of a result are read in C right after its first
bytes: over a slow line a large result blocks.
As in threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). If the wait ends by a cancel or a
timeout, the connection is cut off: the next query would get this answer.
Under ``dhaga.monkey.patch`` a post-import hook installs it as soon as MySQLdb is imported.
"""

from __future__ import annotations

from typing import Any

from MySQLdb import _mysql
from MySQLdb.connections import Connection

from .._kernel.wait.current import parking_waiter
from .._workers.offload import shared
from ._cut_off import answers, cut_off
from ._driver_methods import Method, Methods, connect_by, offloaded

__all__ = ["install", "uninstall"]

LONG_QUERY = 1 << 16
"""Bytes from which a query may not fit into the socket's buffer, so that sending it waits for the server."""

_standard = _mysql.connection
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


def query(self: Any, query: Any) -> None:
    """Execute a query. Parks: until the server begins to answer (``poll``)."""
    if isinstance(query, str):
        query = query.encode(self.encoding)
    elif isinstance(query, bytearray):  # the C library needs bytes that stay the same
        query = bytes(query)
    if parking_waiter() is None:
        _standard.query(self, query)
        return
    try:
        send = _standard.send_query
        if len(query) < LONG_QUERY:
            send(self, query)
        else:
            shared.finish(send, self, query)
        answers(self.fileno(), getattr(self, "_dhaga_read_timeout", None))
    except BaseException as error:
        if not isinstance(error, _mysql.MySQLError):  # the library has closed it
            cut_off(self.fileno())
        raise
    _standard.read_query_result(self)


def commit(self: Any) -> None:
    """Commit. Parks: as ``query``."""
    self.query(b"COMMIT")


def rollback(self: Any) -> None:
    """Roll back. Parks: as ``query``."""
    self.query(b"ROLLBACK")


def autocommit(self: Any, on: Any) -> None:
    """Set the autocommit mode. Parks: as ``query``, unless it is as wanted."""
    if self.get_autocommit() != bool(on):
        self.query(b"SET AUTOCOMMIT = %d" % bool(on))


def next_result(self: Any, *args: Any) -> Any:
    """Read the head of the next result. Parks: until it is there, if there is one (``offload``)."""
    if parking_waiter() is None or not self.more_results():
        return _standard.next_result(self, *args)
    return shared.finish(_standard.next_result, self, *args)


METHODS: dict[str, Method] = {
    "__init__": connect,
    **{each.__name__: each for each in (autocommit, commit, next_result, query, rollback)},
    **{name: offloaded(getattr(_standard, name)) for name in ("change_user", "kill", "ping", "select_db", "stat")},
}
"""The methods of ``Connection`` that park."""

replaced = Methods({(Connection, name): method for name, method in METHODS.items()})
