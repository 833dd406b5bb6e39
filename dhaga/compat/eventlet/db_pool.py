"""``eventlet.db_pool``: pools of database connections that a DB-API 2 module creates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..._kernel.context_manager import contextmanager
from ..._kernel.process.current_scheduler import current_scheduler
from . import tpool
from .greenthread import GreenThread, spawn_after
from .pools import Pool
from .timeout import Timeout

__all__ = [
    "BaseConnectionPool", "ConnectTimeout", "ConnectionPool", "DatabaseConnector", "GenericConnectionWrapper",
    "PooledConnectionWrapper", "RawConnectionPool", "TpooledConnectionPool", "cleanup_rollback",
]  # fmt: skip

logger: logging.Logger = logging.getLogger("dhaga")


class ConnectTimeout(Exception):
    """Raised if a connection is not established within ``connect_timeout`` seconds."""


def clock() -> float:
    """Return the time of the scheduler's clock, in seconds."""
    return current_scheduler().clock()


def cleanup_rollback(conn: Any) -> None:
    """Roll back a transaction that the user did not end."""
    conn.rollback()


@dataclass(slots=True)
class Kept:
    """A connection of the pool, with the times of its creation and its last use on the scheduler's clock."""

    connection: Any
    made: float
    used: float


DEFAULT_CLEANUP: Any = object()


class BaseConnectionPool(Pool):
    """A pool that lends at most ``max_size`` connections. Source: ``eventlet.db_pool.BaseConnectionPool``.

    A connection is closed after ``max_idle`` seconds without use, or once it is ``max_age`` seconds old. If one of
    these numbers is 0, each connection is closed on return. ``cleanup``: function called with each returned
    connection, or None. Other arguments are passed to ``db_module.connect``. Parks: in ``get``, while all connections
    are lent. Raises: ConnectTimeout, and the errors of ``connect``.
    """

    def __init__(
        self,
        db_module: Any,
        min_size: int = 0,
        max_size: int = 4,
        max_idle: float = 10,
        max_age: float = 30,
        connect_timeout: float | None = 5,
        cleanup: Callable[[Any], object] | None = cleanup_rollback,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not hasattr(db_module, "connect"):
            raise TypeError(f"db_module must have connect(), as a module of DB-API 2 has; {db_module!r} has none")
        self._db_module = db_module
        self._args = args
        self._kwargs = kwargs
        self.max_idle = max_idle
        self.max_age = max_age
        self.connect_timeout = connect_timeout
        self.cleanup = cleanup
        self._expiry: GreenThread | None = None
        super().__init__(min_size, max_size, order_as_stack=True)

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float | None, *args: Any, **kwargs: Any) -> Any:
        """Create a connection. A subclass must define it. Raises: ConnectTimeout."""
        raise NotImplementedError("Implement in subclass")

    def create(self) -> Kept:
        now = clock()
        connection = self.connect(self._db_module, self.connect_timeout, *self._args, **self._kwargs)
        return Kept(connection, now, now)

    def get(self) -> PooledConnectionWrapper:
        """Lend a connection; its ``close`` returns it to the pool."""
        kept = super().get()
        if kept is None:  # a returned connection was unusable, and only its place is free
            kept = self._created()
        return PooledConnectionWrapper(kept, self)

    def put(self, conn: Any, cleanup: Any = DEFAULT_CLEANUP) -> None:
        """Return a connection to the pool. Close an expired connection, and drop a connection if its cleanup fails.

        ``cleanup``: the function that is called instead of the pool's cleanup function.
        """
        kept = conn._withdraw() if isinstance(conn, PooledConnectionWrapper) else None
        now = clock()
        if kept is not None:
            kept.used = now
            if self._is_expired(kept, now):
                close_quietly(kept.connection)
                kept = None
            elif not self._clean(kept.connection, self.cleanup if cleanup is DEFAULT_CLEANUP else cleanup):
                kept = None
        if kept is not None or self.waiting():
            super().put(kept)  # a getter that receives None creates a connection
        else:
            self.current_size -= 1
        self._arrange_expiry()

    def _clean(self, connection: Any, cleanup: Callable[[Any], object] | None) -> bool:
        """Call ``cleanup`` and return whether the connection can be used again."""
        try:
            if cleanup is not None:
                cleanup(connection)
        except Exception as error:
            logger.warning("a connection is dropped, because its cleanup failed: %s", error)
            return False
        return True

    @contextmanager
    def item(self, cleanup: Any = DEFAULT_CLEANUP) -> Iterator[Any]:
        """Lend a connection to a ``with`` block."""
        connection = self.get()
        try:
            yield connection
        finally:
            self.put(connection, cleanup)

    def clear(self) -> None:
        """Close all connections that are not lent."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        while self.free_items:
            self.current_size -= 1
            close_quietly(self.free_items.popleft().connection)

    # ---- expiry

    def _is_expired(self, kept: Kept, now: float) -> bool:
        if self.max_idle <= 0 or self.max_age <= 0:
            return True
        return now - kept.used >= self.max_idle or now - kept.made >= self.max_age

    def _arrange_expiry(self) -> None:
        """Schedule the next check of the free connections, for the time of the earliest expiry."""
        if self._expiry is None and self.free_items:
            now = clock()
            ends = min(min(each.used + self.max_idle, each.made + self.max_age) for each in self.free_items)
            self._expiry = spawn_after(max(0.001, ends - now), self._expire)

    def _expire(self) -> None:
        """Close the expired free connections. From: a separate greenthread."""
        self._expiry = None
        now = clock()
        expired = [each for each in self.free_items if self._is_expired(each, now)]
        for each in expired:
            self.free_items.remove(each)
            self.current_size -= 1
        self._arrange_expiry()
        for each in expired:
            close_quietly(each.connection)


def close_quietly(connection: Any) -> None:
    """Close a connection and ignore its errors."""
    try:
        connection.close()
    except Exception as error:
        logger.debug("close() of a connection of a pool failed: %s", error)


class TpooledConnectionPool(BaseConnectionPool):
    """A pool whose connections work in OS threads, through ``tpool.Proxy``. Use it for modules that block in C."""

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float | None, *args: Any, **kwargs: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            connection = tpool.execute(db_module.connect, *args, **kwargs)
        return tpool.Proxy(connection, autowrap_names=("cursor",))


class RawConnectionPool(BaseConnectionPool):
    """A pool of the module's own connections. Use it for modules whose waits park."""

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float | None, *args: Any, **kwargs: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            return db_module.connect(*args, **kwargs)


ConnectionPool = TpooledConnectionPool


class GenericConnectionWrapper:
    """Wrapper of a connection. It forwards all attributes to the connection."""

    def __init__(self, baseconn: Any) -> None:
        self._base = baseconn

    def __getattr__(self, name: str) -> Any:
        if name == "_base":  # the connection was given back
            raise AttributeError("the connection was given back to its pool")
        return getattr(self._base, name)

    def __enter__(self) -> Any:
        return self._base.__enter__()

    def __exit__(self, *details: Any) -> Any:
        return self._base.__exit__(*details)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.__dict__.get('_base')!r}>"


class PooledConnectionWrapper(GenericConnectionWrapper):
    """A lent connection. ``close`` returns it to the pool; the wrapper is then false."""

    def __init__(self, kept: Kept, pool: BaseConnectionPool) -> None:
        super().__init__(kept.connection)
        self._kept: Kept | None = kept
        self._pool = pool

    def __bool__(self) -> bool:
        return self._kept is not None

    def _withdraw(self) -> Kept | None:
        """Detach the connection from the wrapper. Returns: the pool's record, or None if this was done before."""
        kept, self._kept = self._kept, None
        self.__dict__.pop("_base", None)
        return kept

    def close(self) -> None:
        """Return the connection to the pool; no-op if it was returned before."""
        if self:
            self._pool.put(self)


class DatabaseConnector:
    """One pool for each host and database. Source: ``eventlet.db_pool.DatabaseConnector``.

    ``credentials``: the arguments of ``connect`` for each host; the entry ``default`` is for all other hosts.
    """

    def __init__(self, module: Any, credentials: Any, conn_pool: Any = None, *args: Any, **kwargs: Any) -> None:
        self._module = module
        self._credentials = credentials
        self._make = conn_pool or ConnectionPool
        self._args = args
        self._kwargs = kwargs
        self._databases: dict[tuple[str, str], Any] = {}

    def credentials_for(self, host: str) -> Any:
        """Return the arguments of ``connect`` for a host, or None."""
        return self._credentials[host] if host in self._credentials else self._credentials.get("default")

    def get(self, host: str, dbname: str) -> Any:
        """Return the pool of a database. The first call creates the pool."""
        if (host, dbname) not in self._databases:
            options = self._kwargs | {"host": host, "db": dbname} | (self.credentials_for(host) or {})
            self._databases[host, dbname] = self._make(self._module, *self._args, **options)
        return self._databases[host, dbname]
