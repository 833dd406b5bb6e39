"""psycopg2 on dhagas: ``install()`` makes its connections park where libpq would wait.

It uses ``psycopg2.extensions.set_wait_callback``, with its limits: COPY, large objects and replication raise
ProgrammingError, and libpq resolves a host's name itself, which blocks: give ``hostaddr`` if that is slow.
Threads may share a connection (DB API, threadsafety 2). psycopg2 guards it by a mutex in C, which is held while the
callback parks: another dhaga that calls ``commit()`` would block the OS thread for ever. So each connection is made
by a class with a lock of ours, which the calls of it and of its cursors take before: they come one after the
other. ``cancel()`` takes none. A connection from before ``install``, or from a ``connection_factory`` that is no class,
has no such lock: one thread at a time may use it.
Under ``dhaga.monkey.patch`` a post-import hook installs it as soon as psycopg2 is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any

import psycopg2
from psycopg2 import extensions
from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE, get_wait_callback, set_wait_callback

from .._kernel.errors import ParkError
from .._sync.lock import RLock
from ..select import POLLIN, POLLOUT, poll

__all__ = ["install", "uninstall", "wait"]

EVENTS = {POLL_READ: POLLIN, POLL_WRITE: POLLOUT}

former: list[Callable[[Any], object] | None] = []
"""The callback that ``uninstall`` restores."""

standard_connect = psycopg2._connect
next_row = extensions.cursor.__next__


def install() -> None:
    """Make all connections of the process park, those already open, too. A plain OS thread blocks as before."""
    if not former:
        former.append(get_wait_callback())
        set_wait_callback(wait)
        psycopg2._connect = connect


def uninstall() -> None:
    """Restore the callback of before ``install``, unless another one has replaced ours."""
    callback = former.pop() if former else None
    if get_wait_callback() is wait:
        set_wait_callback(callback)
    psycopg2._connect = standard_connect


# ---- waiting


def wait(connection: Any) -> None:
    """Wait until libpq has finished its step. Parks: ``poll fd N``; a plain thread and the event loop block.

    If this raises, as on a cancel, psycopg2 closes the connection, whose protocol state is unknown then.
    Raises: what the server reports.
    """
    while (state := connection.poll()) != POLL_OK:
        wait_for(connection.fileno(), EVENTS[state])


def wait_for(fd: int, event: int) -> None:
    poller = poll()
    poller.register(fd, event)
    try:
        poller.poll()
    except ParkError:  # a coroutine or a callback: block, as without ``install``
        poller.real.poll()


# ---- one call of a connection at a time


def connect(dsn: str, connection_factory: Any = None, **options: Any) -> Any:
    """Connect as ``psycopg2._connect`` does; the connection's class is derived from that of the program."""
    return standard_connect(dsn, connection_factory=locked(connection_factory, LockedConnection), **options)


def locked(factory: Any, base: type) -> Any:
    """Return a class derived from ``factory`` and ``base``; None means the standard one, a function stays."""
    if factory is None:
        factory = base.__base__
    return derived(factory, base) if isinstance(factory, type) else factory


@lru_cache(maxsize=256)
def derived(kind: type, base: type) -> type:
    if issubclass(kind, base):
        return kind
    # The program's own class stands first, so that what it overrides calls ours as its super().
    bases = (base,) if issubclass(base, kind) else (kind, base)
    return type(kind.__name__, bases, {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def with_lock(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that holds the connection's lock while it runs."""

    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        with self._dhaga_lock:
            return method(self, *args, **options)

    return call


def property_with_lock(standard: Any) -> property:
    return property(standard.__get__, with_lock(standard.__set__), doc=standard.__doc__)


class LockedConnection(extensions.connection):  # type: ignore[misc]
    """A connection whose calls come one after the other. Parks: while another's is under way (``rlock.acquire``)."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        self = super().__new__(cls, *args, **options)
        self._dhaga_lock = RLock()
        return self

    def cursor(self, name: str | None = None, cursor_factory: Any = None, *args: Any, **options: Any) -> Any:
        """Return a cursor whose calls take the connection's lock."""
        factory = locked(cursor_factory or self.cursor_factory, LockedCursor)
        return super().cursor(name, factory, *args, **options)


class LockedCursor(extensions.cursor):  # type: ignore[misc]
    """A cursor whose calls, and those of its connection, come one after the other."""

    def __init__(self, connection: Any, *args: Any, **options: Any) -> None:
        super().__init__(connection, *args, **options)
        self._dhaga_lock: RLock = connection._dhaga_lock

    def __next__(self) -> Any:
        # Written out: a row by with_lock would take 1 µs, by this 0.6, by psycopg2 alone 0.15.
        with self._dhaga_lock:
            return next_row(self)


for name in (
    *("__exit__", "close", "commit", "lobject", "reset", "rollback", "set_client_encoding", "set_isolation_level"),
    *("set_session", "tpc_begin", "tpc_commit", "tpc_prepare", "tpc_recover", "tpc_rollback"),
):
    setattr(LockedConnection, name, with_lock(getattr(extensions.connection, name)))
for name in ("autocommit", "deferrable", "isolation_level", "readonly"):
    setattr(LockedConnection, name, property_with_lock(getattr(extensions.connection, name)))
for name in (
    *("__exit__", "callproc", "close", "copy_expert", "copy_from", "copy_to", "execute", "executemany"),
    *("fetchall", "fetchmany", "fetchone", "scroll"),
):
    setattr(LockedCursor, name, with_lock(getattr(extensions.cursor, name)))
