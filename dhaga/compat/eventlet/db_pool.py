"""``eventlet.db_pool``: pools of connections to databases, by the module (DB-API 2) that makes them."""

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
    """A connection could not be made within ``connect_timeout`` seconds."""


def clock() -> float:
    """Return the scheduler's time, in seconds."""
    return current_scheduler().clock()


def cleanup_rollback(conn: Any) -> None:
    """Roll back a transaction that the user left open."""
    conn.rollback()


@dataclass(slots=True)
class Kept:
    """A connection in the pool, with the times of its creation and its last use, by the scheduler's clock."""

    connection: Any
    made: float
    used: float


DEFAULT_CLEANUP: Any = object()


class BaseConnectionPool(Pool):
    """Lends at most ``max_size`` connections. Source: ``eventlet.db_pool.BaseConnectionPool``.

    A connection is closed once it has been idle for ``max_idle`` seconds, or is ``max_age`` seconds old (0: whenever it
    is returned). ``cleanup``: called with each returned connection; None: no call. Other arguments are those of
    ``db_module.connect``. Parks: ``get``, while all are lent. Raises: ConnectTimeout, and what ``connect`` raises.
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
        """Make a connection. To be defined by a subclass. Raises: ConnectTimeout."""
        raise NotImplementedError("Implement in subclass")

    def create(self) -> Kept:
        now = clock()
        connection = self.connect(self._db_module, self.connect_timeout, *self._args, **self._kwargs)
        return Kept(connection, now, now)

    def get(self) -> PooledConnectionWrapper:
        """Lend a connection; its ``close`` gives it back."""
        kept = super().get()
        if kept is None:  # a returned connection was unusable
            try:
                kept = self.create()
            except BaseException:
                self.current_size -= 1
                raise
        return PooledConnectionWrapper(kept, self)

    def put(self, conn: Any, cleanup: Any = DEFAULT_CLEANUP) -> None:
        """Return a connection to the pool; ``cleanup`` replaces the pool's. A failed cleanup drops the connection."""
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
            super().put(kept)  # a getter that receives None makes a connection
        else:
            self.current_size -= 1
        self._arrange_expiry()

    def _clean(self, connection: Any, cleanup: Callable[[Any], object] | None) -> bool:
        """Return whether a connection can be used again."""
        try:
            if cleanup is not None:
                cleanup(connection)
        except Exception as error:
            logger.warning("a connection is dropped, as its cleanup failed: %s", error)
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

    # ---- the end of connections

    def _is_expired(self, kept: Kept, now: float) -> bool:
        if self.max_idle <= 0 or self.max_age <= 0:
            return True
        return now - kept.used >= self.max_idle or now - kept.made >= self.max_age

    def _arrange_expiry(self) -> None:
        """Schedule the check of the free connections for the earliest expiry."""
        if self._expiry is None and self.free_items:
            now = clock()
            ends = min(min(each.used + self.max_idle, each.made + self.max_age) for each in self.free_items)
            self._expiry = spawn_after(max(0.001, ends - now), self._expire)

    def _expire(self) -> None:
        """Close the expired free connections. From: a greenthread."""
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
    """A pool whose connections work in OS threads, with ``tpool.Proxy``: for modules that block in C."""

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float | None, *args: Any, **kwargs: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            connection = tpool.execute(db_module.connect, *args, **kwargs)
        return tpool.Proxy(connection, autowrap_names=("cursor",))


class RawConnectionPool(BaseConnectionPool):
    """A pool of the module's own connections: for modules that park."""

    @classmethod
    def connect(cls, db_module: Any, connect_timeout: float | None, *args: Any, **kwargs: Any) -> Any:
        with Timeout(connect_timeout, ConnectTimeout()):
            return db_module.connect(*args, **kwargs)


ConnectionPool = TpooledConnectionPool


class GenericConnectionWrapper:
    """Wrapper of a connection, with all its attributes."""

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
    """A lent connection: ``close`` returns it to the pool, and makes the wrapper false."""

    def __init__(self, kept: Kept, pool: BaseConnectionPool) -> None:
        super().__init__(kept.connection)
        self._kept: Kept | None = kept
        self._pool = pool

    def __bool__(self) -> bool:
        return self._kept is not None

    def _withdraw(self) -> Kept | None:
        """Detach the connection. Returns: the pool's object of the connection; None if it was detached before."""
        kept, self._kept = self._kept, None
        self.__dict__.pop("_base", None)
        return kept

    def close(self) -> None:
        """Return the connection to the pool. No-op if it was returned before."""
        if self:
            self._pool.put(self)


class DatabaseConnector:
    """A pool for each host and database. Source: ``eventlet.db_pool.DatabaseConnector``.

    ``credentials``: the arguments of ``connect`` by host; those of ``default`` are for all other hosts.
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
        """Return the pool of a database."""
        if (host, dbname) not in self._databases:
            options = self._kwargs | {"host": host, "db": dbname} | (self.credentials_for(host) or {})
            self._databases[host, dbname] = self._make(self._module, *self._args, **options)
        return self._databases[host, dbname]
