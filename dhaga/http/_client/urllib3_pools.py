"""Subclasses of urllib3's connections, TLS contexts, pools and retries. They park where the originals would block.

Connections use ``dhaga.socket``. TLS connections use contexts that create ``dhaga.ssl`` sockets. A request to a bounded
pool parks until a connection is free, and a retry parks for its pause. The locks of urllib3's pool managers remain
standard locks, because no code waits while it holds such a lock.

All connections of the process with equal ``TLSOptions`` share one TLS context. The key of a cached context
includes mtime, inode and size of the certificate files, so that a renewed certificate is read. ``IdleConnections`` is
a stack: a pool first reuses the connection at the top, and an unbounded pool closes stale connections at the bottom.
``http.requests`` uses these classes.
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
"""Maximum number of cached TLS contexts, each with its certificates.

Loading certifi's certificates blocks the OS thread for 16 ms. Without the cache, urllib3 loads the certificates for
each connection.
"""

IDLE_SECONDS = 75.0
"""Seconds after which an idle connection is stale. A stale connection is closed before its next use. An unbounded pool
also closes it when another connection returns to the pool. Nginx closes idle connections after 75 s, and most other
servers sooner.
"""

# ---- connections


def dial(conn: connection.HTTPConnection) -> socket:
    """Connect to the host of a connection. Raises: urllib3's errors with their exact texts, which programs parse."""
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
    """Connect to the first address that answers. The addresses are tried one after the other."""
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
    """A TLS connection whose socket parks. The TLS connection to a proxy also parks."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tls_options = TLSOptions.of(self)
        self.has_own_context = self.ssl_context is not None
        if not self.has_own_context:  # the shared context loads the certificates instead
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
    """Change a TLS context of any class so that it creates ``dhaga.ssl`` sockets. Returns: the context."""
    if not issubclass(context.sslsocket_class, SSLSocket):
        context.sslsocket_class = SSLSocket
    return context


class SharedContext(SSLContext):
    """A TLS context that connections share.

    For each connection, urllib3 sets the ALPN protocols of the context again, always to the same value. OpenSSL does
    not support this while another OS thread starts a connection. So this class calls OpenSSL only if the
    value has changed.
    """

    alpn_protocols_set: Any = None

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        if self.alpn_protocols_set != alpn_protocols:
            super().set_alpn_protocols(alpn_protocols)
            self.alpn_protocols_set = alpn_protocols


class TLSOptions(NamedTuple):
    """The options of a TLS context. Connections with equal options share a context."""

    cert_reqs: Any
    ca_certs: str | None
    ca_cert_dir: str | None
    ca_cert_data: str | bytes | None
    cert_file: str | None
    key_file: str | None
    key_password: str | None
    versions: tuple[Any, Any, Any]
    checked_names: tuple[Any, Any]  # checked by urllib3 instead of OpenSSL

    @classmethod
    def of(cls, conn: connection.HTTPSConnection) -> TLSOptions:
        versions = (conn.ssl_version, conn.ssl_minimum_version, conn.ssl_maximum_version)
        checked_names = (conn.assert_hostname, conn.assert_fingerprint)
        trust = (conn.ca_certs, conn.ca_cert_dir, conn.ca_cert_data)
        return cls(conn.cert_reqs, *trust, conn.cert_file, conn.key_file, conn.key_password, versions, checked_names)

    def without_client_cert(self) -> TLSOptions:
        """Return the options for a TLS connection to a proxy: these options without the client certificate."""
        return self._replace(cert_file=None, key_file=None, key_password=None)

    def context(self) -> SharedContext:
        """Return the shared context for these options, or a new context if a certificate file has changed."""
        return make_context(self, tuple(map(file_version, (self.ca_certs, self.cert_file, self.key_file))))


def file_version(path: str | None) -> tuple[int, ...] | None:
    """Return mtime, inode and size of a file, or None if there is no file."""
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
    """Raise SSLError. From: OpenSSL, which would prompt for a password on the terminal without this callback."""
    raise SSLError(
        "the key of the client's certificate is encrypted: pass an unencrypted one, or a context with its password"
    )


# ---- pools


class IdleConnections(LifoQueue[Any]):
    """The idle connections to one host; in a bounded pool, also a None for each connection that may still be opened.

    If ``get`` is cancelled, urllib3 nevertheless calls ``put(None)``, which would raise the bound. ``ignored_puts`` has
    an item for each ``put`` to ignore. A forked child leaves the parent's connections open and unused.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.ignored_puts: list[None] = []
        self.pid: int = os.getpid()
        self.inherited: list[Any] = []

    def leave_to_parent(self) -> None:
        """Set aside the inherited connections in a forked child.

        If two processes used one connection, each could read the answers to the other's requests.
        """
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
            item.close()  # its next use reconnects: a server or a NAT may have dropped the connection silently
        return item

    def empty_out(self) -> None:
        """Close the idle connections. A bounded pool may open as many new connections instead."""
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
            if not self.maxsize:
                self.drop_stale(item.idle_since - IDLE_SECONDS)
        elif self.maxsize and not self.ignore_put():
            super().put(item, block, timeout)

    def drop_stale(self, deadline: float) -> None:
        """Close connections of an unbounded pool that have been idle since before the deadline.

        Stale connections are at the bottom of the stack, which ``get`` rarely reaches. A bounded pool keeps stale
        connections: they occupy places of the pool, and the bound limits their number.
        """
        try:
            while self.queue[0].idle_since < deadline:
                self.queue.pop(0).close()
        except IndexError:  # another OS thread took the last connection
            pass

    def ignore_put(self) -> bool:
        """Remove one item of ``ignored_puts``. Returns: False if there is no item."""
        try:
            self.ignored_puts.pop()
        except IndexError:
            return False
        return True


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """The pool of connections to one host."""

    ConnectionCls: Any = HTTPConnection
    QueueCls: Any = IdleConnections

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, body: Any = None, headers: Any = None, retries: Any = None, *rest: Any, **more: Any
    ) -> Any:
        this_waiter()  # raises ParkError if the caller cannot park
        return super().urlopen(method, url, body, headers, parking_retries(retries), *rest, **more)


class HTTPSConnectionPool(HTTPConnectionPool, connectionpool.HTTPSConnectionPool):
    """The pool of TLS connections to one host."""

    ConnectionCls = HTTPSConnection


class Retry(StandardRetry):
    """A retry policy. Parks: between two attempts (``sleep``). Source: ``urllib3.Retry``."""

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
    """Return a copy of a urllib3 ``Retry`` whose pauses park. Return a policy unchanged if it parks or never pauses."""
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
    """Make a pool manager create pools that park. When the manager drops a pool, the idle connections are closed."""
    if manager.pool_classes_by_scheme is not POOL_CLASSES:
        manager.clear()  # existing pools would block
        manager.pool_classes_by_scheme = POOL_CLASSES
        manager.pools.dispose_func = close_idle


def close_idle(pool: HTTPConnectionPool) -> None:
    """Close the idle connections of a pool. The pool remains usable."""
    idle_connections: Any = pool.pool
    if idle_connections is not None:
        idle_connections.empty_out()
