"""mysqlclient (``MySQLdb``) on dhagas: ``install()`` makes its connections park where the C library would wait.

A query is split: it is sent, the dhaga parks until the server answers, and the answer is read (``send_query``,
``fileno`` and ``read_query_result`` of the C API). Commits, rollbacks and changes of autocommit are queries. Calls that
cannot be split run in an OS thread while their caller is parked (``dhaga.offload``). These are the connect with its
name look-up and handshakes, ``change_user``, ``kill``, ``ping``, ``select_db``, ``stat``, reading further results, and
sending a long query. A cancelled caller waits for the end of such a call, because the thread uses the connection. A
cancelled connect is an exception: its caller continues at once. The rows of a result are read in C right after the
result's first bytes, so a large result over a slow line blocks the caller's OS thread.
As with threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). If a cancel or a timeout ends
the wait for an answer, the connection is cut off, because the next query would get this answer.
In a patched program, a post-import hook calls ``install()`` as soon as MySQLdb is imported.
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
"""A query of this length in bytes, or more, may exceed the socket's buffer, so that sending waits for the server."""

_standard = _mysql.connection
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


def query(self: Any, query: Any) -> None:
    """Execute a query. Parks: until the server begins to answer (``poll``)."""
    if isinstance(query, str):
        query = query.encode(self.encoding)
    elif isinstance(query, bytearray):  # the C library needs immutable bytes
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
        if not isinstance(error, _mysql.MySQLError):  # after a MySQLError the library has closed the connection
            cut_off(self.fileno())
        raise
    _standard.read_query_result(self)


def commit(self: Any) -> None:
    """Commit the transaction. Parks: like ``query``."""
    self.query(b"COMMIT")


def rollback(self: Any) -> None:
    """Roll the transaction back. Parks: like ``query``."""
    self.query(b"ROLLBACK")


def autocommit(self: Any, on: Any) -> None:
    """Set the autocommit mode. Parks: like ``query``, unless the mode is already set."""
    if self.get_autocommit() != bool(on):
        self.query(b"SET AUTOCOMMIT = %d" % bool(on))


def next_result(self: Any, *args: Any) -> Any:
    """Read the head of the next result. Parks: if there is a next result, until its head has come (``offload``)."""
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
