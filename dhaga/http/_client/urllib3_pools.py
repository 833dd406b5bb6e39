"""urllib3 connections that park: their sockets, TLS contexts, pools and retries.

Connections use ``dhaga.socket`` and TLS contexts that make ``dhaga.ssl`` sockets; a bounded pool parks for a free
connection, a retry parks for its pause. The locks of urllib3's pool managers stay standard: no code waits under them.

State: TLS contexts are shared by all connections with equal ``TLSOptions``, cached process-wide, and also keyed by the
stat of their files, so that a renewed certificate is read. ``IdleConnections`` is a pool's stack: the most recent
connection is used first, and stale ones at the bottom are closed. The parts for requests: ``http.requests``.
"""

from __future__ import annotations

import copy
import os
import ssl
import sys
from functools import cache, lru_cache
from socket import SOCK_STREAM, gaierror
from typing import Any, NamedTuple, cast

from urllib3 import connection, connectionpool
from urllib3.exceptions import (
    ConnectTimeoutError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
)
from urllib3.util import Retry as StandardRetry
from urllib3.util import connection as connection_util
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs, resolve_ssl_version

from ..._kernel.wait.current import this_waiter
from ...queue import Empty, LifoQueue
from ...socket import getaddrinfo, socket
from ...ssl import SSLContext, SSLSocket
from ...time import monotonic, sleep

CONTEXT_CACHE_SIZE = 32
"""TLS contexts kept, each with its certificates. Loading certifi's certificates blocks the OS thread for 16 ms, and
urllib3 does it for each connection.
"""

IDLE_SECONDS = 75.0
"""Seconds after which an idle connection is closed, before its next use or at the next return of another to the pool.
By then the server has also closed it (nginx after 75 s, most others sooner), so that only a descriptor is left.
"""

# ---- connections


def dial(conn: connection.HTTPConnection) -> socket:
    """Connect to the host of a connection. Raises: urllib3's errors, with their exact texts, because programs parse
    them.
    """
    try:
        sock = dial_first(conn)
    except gaierror as error:
        raise NameResolutionError(conn.host, conn, error) from error
    except UnicodeError as error:
        raise LocationParseError(conn.host) from error
    except TimeoutError as error:
        text = f"Connection to {conn.host} timed out. (connect timeout={conn.timeout})"
        raise ConnectTimeoutError(conn, text) from error
    except OSError as error:
        raise NewConnectionError(conn, f"Failed to establish a new connection: {error}") from error
    sys.audit("http.client.connect", conn, conn.host, conn.port)
    return sock


def dial_first(conn: connection.HTTPConnection) -> socket:
    """Try the addresses one after the other, and connect to the first that answers."""
    host = conn._dns_host.strip("[]")
    *others, last = getaddrinfo(host, conn.port, connection_util.allowed_gai_family(), SOCK_STREAM)
    for address in others:
        try:
            return dial_address(conn, *address)
        except OSError:
            continue
    return dial_address(conn, *last)


def dial_address(conn: connection.HTTPConnection, family: int, kind: int, proto: int, _: str, address: Any) -> socket:
    sock = socket(family, kind, proto)
    try:
        for option in conn.socket_options or ():
            sock.setsockopt(*option)
        sock.settimeout(conn.timeout)
        if conn.source_address:
            sock.bind(conn.source_address)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


class HTTPConnection(connection.HTTPConnection):
    """A connection whose socket parks."""

    def _new_conn(self) -> socket:
        return dial(self)


class HTTPSConnection(connection.HTTPSConnection):
    """A TLS connection whose socket parks, to the host or to a proxy."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tls_options = TLSOptions.of(self)
        self.has_own_context = self.ssl_context is not None
        if not self.has_own_context:  # already loaded by the shared context
            self.ca_certs = self.ca_cert_dir = self.ca_cert_data = None
            self.cert_file = self.key_file = self.key_password = None

    def _new_conn(self) -> socket:
        return dial(self)

    def connect(self) -> None:
        self.ssl_context = parking_context(self.ssl_context) if self.has_own_context else self.tls_options.context()
        super().connect()

    def _connect_tls_proxy(self, hostname: str, sock: Any) -> Any:
        config = cast(connection.ProxyConfig, self.proxy_config)
        context = (
            parking_context(config.ssl_context)
            if config.ssl_context
            else self.tls_options.without_client_cert().context()
        )
        self.proxy_config = config._replace(ssl_context=context)
        return super()._connect_tls_proxy(hostname, sock)


# ---- TLS


def parking_context(context: Any) -> Any:
    """Make a TLS context of another class create our sockets, and return it."""
    if not issubclass(context.sslsocket_class, SSLSocket):
        context.sslsocket_class = SSLSocket
    return context


class SharedContext(SSLContext):
    """A context that connections share.

    urllib3 sets the ALPN protocols for each connection. They are always the same, and OpenSSL does not support setting
    them while another OS thread starts a connection. So only changes are passed on.
    """

    alpn_protocols_set: Any = None

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        if self.alpn_protocols_set != alpn_protocols:
            super().set_alpn_protocols(alpn_protocols)
            self.alpn_protocols_set = alpn_protocols


class TLSOptions(NamedTuple):
    """The options that distinguish TLS contexts."""

    cert_reqs: Any
    ca_certs: str | None
    ca_cert_dir: str | None
    ca_cert_data: str | bytes | None
    cert_file: str | None
    key_file: str | None
    key_password: str | None
    versions: tuple[Any, Any, Any]
    checked_names: tuple[Any, Any]  # checked by urllib3 itself

    @classmethod
    def of(cls, conn: connection.HTTPSConnection) -> TLSOptions:
        versions = (conn.ssl_version, conn.ssl_minimum_version, conn.ssl_maximum_version)
        checked_names = (conn.assert_hostname, conn.assert_fingerprint)
        trust = (conn.ca_certs, conn.ca_cert_dir, conn.ca_cert_data)
        return cls(conn.cert_reqs, *trust, conn.cert_file, conn.key_file, conn.key_password, versions, checked_names)

    def without_client_cert(self) -> TLSOptions:
        """Return the options for a proxy, without the client certificate."""
        return self._replace(cert_file=None, key_file=None, key_password=None)

    def context(self) -> SharedContext:
        """Return the shared context for these options, a new one if a file has changed."""
        return make_context(self, tuple(map(file_version, (self.ca_certs, self.cert_file, self.key_file))))


def file_version(path: str | None) -> tuple[int, ...] | None:
    """Return a value that changes with the file: mtime, inode, size; None if there is no file."""
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return status and (status.st_mtime_ns, status.st_ino, status.st_size)


@lru_cache(maxsize=CONTEXT_CACHE_SIZE)
def make_context(tls_options: TLSOptions, file_versions: object) -> SharedContext:
    version, minimum, maximum = tls_options.versions
    context: Any = create_urllib3_context(
        ssl_version=resolve_ssl_version(version) if version else None,
        ssl_minimum_version=minimum,
        ssl_maximum_version=maximum,
        cert_reqs=resolve_cert_reqs(tls_options.cert_reqs),
    )
    context.__class__ = SharedContext
    trust = (tls_options.ca_certs, tls_options.ca_cert_dir, tls_options.ca_cert_data)
    if any(trust):
        try:
            context.load_verify_locations(*trust)
        except OSError as error:
            raise SSLError(error) from error
    elif context.verify_mode != ssl.CERT_NONE:
        context.load_default_certs()
    if tls_options.cert_file:
        context.load_cert_chain(
            tls_options.cert_file, tls_options.key_file, tls_options.key_password or refuse_password_prompt
        )
    return cast(SharedContext, context)


def refuse_password_prompt() -> str:
    """Password callback that raises; without it OpenSSL would prompt on the terminal."""
    raise SSLError(
        "the key of the client's certificate is encrypted: pass an unencrypted one, or a context with its password"
    )


# ---- pools


class IdleConnections(LifoQueue[Any]):
    """The idle connections to one host; in a bounded pool also a None for each connection that may still be opened.

    urllib3 puts back an item after every request, even a None that it never got, because its ``get`` was cancelled:
    ``ignored_puts`` counts these, so that the bound does not grow. A forked child starts without connections, and keeps
    the parent's alive but unused.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.ignored_puts: list[None] = []
        self.pid: int = os.getpid()
        self.inherited: list[Any] = []

    def leave_to_parent(self) -> None:
        """Set the connections aside in a forked child: on a shared one, each process would read the other's answers."""
        self.pid = os.getpid()
        self.inherited += [each for each in self.queue if each is not None]
        self.queue[:] = [None] * len(self.queue) if self.maxsize else []

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self.pid != os.getpid():
            self.leave_to_parent()
        try:
            item = super().get(block, timeout)
        except Empty:
            raise
        except BaseException:
            self.ignored_puts.append(None)
            raise
        if item is not None and item.idle_since < monotonic() - IDLE_SECONDS:
            item.close()  # it connects again: the other end, or a NAT between, may have dropped the connection silently
        return item

    def empty_out(self) -> None:
        """Close the idle connections; a bounded pool keeps its bound."""
        slots = 0
        try:
            while True:
                idle = self.get(block=False)
                slots += 1
                if idle is not None:
                    idle.close()
        except Empty:
            pass
        for _ in range(slots):
            self.put(None)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not None:
            item.idle_since = monotonic()
            super().put(item, block, timeout)
            self.drop_stale(item.idle_since - IDLE_SECONDS)
        elif self.maxsize and not self.ignore_put():
            super().put(item, block, timeout)

    def drop_stale(self, deadline: float) -> None:
        """Close connections that have been idle since before the deadline. They are at the bottom, out of reach of
        ``get``.

        A bounded pool has Nones at the bottom; there the bound limits idle connections.
        """
        try:
            while self.queue[0] is not None and self.queue[0].idle_since < deadline:
                self.queue.pop(0).close()
        except IndexError:  # another OS thread took the last one
            pass

    def ignore_put(self) -> bool:
        """Consume one put to be ignored. Returns: whether there was one."""
        try:
            self.ignored_puts.pop()
        except IndexError:
            return False
        return True


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """The connections to one host."""

    ConnectionCls: Any = HTTPConnection
    QueueCls: Any = IdleConnections

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, body: Any = None, headers: Any = None, retries: Any = None, *rest: Any, **more: Any
    ) -> Any:
        this_waiter()  # raises ParkError at once where the caller cannot park
        return super().urlopen(method, url, body, headers, parking_retries(retries), *rest, **more)


class HTTPSConnectionPool(HTTPConnectionPool, connectionpool.HTTPSConnectionPool):
    """The TLS connections to one host."""

    ConnectionCls = HTTPSConnection


class Retry(StandardRetry):
    """Retry policy. Parks: ``sleep``, between two tries. Source: ``urllib3.Retry``."""

    def sleep_for_retry(self, response: Any) -> bool:
        pause = self.get_retry_after(response)
        if pause:
            sleep(pause)
        return bool(pause)

    def _sleep_backoff(self) -> None:
        pause = self.get_backoff_time()
        if pause > 0:
            sleep(pause)


def parking_retries(retries: Any) -> Any:
    """Return a copy of a urllib3 Retry whose pauses park. A Retry that never pauses is returned unchanged."""
    if isinstance(retries, Retry) or not isinstance(retries, StandardRetry) or retries.total == 0:
        return retries
    kind: Any = type(retries)
    retries = copy.copy(retries)
    retries.__class__ = parking_kind(kind)
    return retries


@cache
def parking_kind(kind: Any) -> Any:
    return Retry if kind is StandardRetry else type(kind.__name__, (kind, Retry), {})


# ---- installing

POOL_CLASSES: Any = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


def use_parking_pools(manager: Any) -> None:
    """Make a pool manager create our pools, and close the idle connections of pools that it drops."""
    if manager.pool_classes_by_scheme is not POOL_CLASSES:
        manager.clear()  # existing pools would block
        manager.pool_classes_by_scheme = POOL_CLASSES
        manager.pools.dispose_func = close_idle


def close_idle(pool: HTTPConnectionPool) -> None:
    """Close the idle connections of a pool, which stays usable."""
    idle_connections: Any = pool.pool
    if idle_connections is not None:
        idle_connections.empty_out()
