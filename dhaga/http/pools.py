"""Connections of ``urllib3`` that park: their sockets, their TLS contexts, the pools that keep them, their retries.

The connections use sockets of ``dhaga.socket`` and contexts that make those of ``dhaga.ssl``, bounded pools wait for a
connection by parking, and so do retries for their next try. The locks of urllib3's pool managers stay as they are:
nothing is waited for under them. Not here: what only requests knows.
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
from urllib3.util import connection as dialling
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs, resolve_ssl_version

from ..kernel import originals
from ..kernel.waiting import this_waiter
from ..queue import Empty, LifoQueue
from ..socket import getaddrinfo, socket
from ..ssl import SSLContext, SSLSocket
from ..time import sleep

CONTEXTS = 32
"""How many TLS contexts are kept, each with its certificates. To load those of certifi takes 16 ms, in which nobody
else runs: urllib3 does so for each connection.
"""

IDLE = 75.0
"""Seconds after which a connection that nobody has asked for is closed, when another comes back: by then the server has
done so, too (nginx after 75 s, most others sooner), and nothing but a descriptor is left of it.
"""

# ---- connections


def dial(conn: connection.HTTPConnection) -> socket:
    """Connect to the host of a connection, and raise what urllib3 would; texts included, which programs look for."""
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
    """Connect to the first address that answers."""
    host = conn._dns_host.strip("[]")
    *others, last = getaddrinfo(host, conn.port, dialling.allowed_gai_family(), SOCK_STREAM)
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
        self.terms = Terms.of(self)
        self.has_own_context = self.ssl_context is not None
        if not self.has_own_context:  # that of the terms has all of it, and is not to be given it again
            self.ca_certs = self.ca_cert_dir = self.ca_cert_data = None
            self.cert_file = self.key_file = self.key_password = None

    def _new_conn(self) -> socket:
        return dial(self)

    def connect(self) -> None:
        self.ssl_context = parking_context(self.ssl_context) if self.has_own_context else self.terms.context()
        super().connect()

    def _connect_tls_proxy(self, hostname: str, sock: Any) -> Any:
        config = cast(connection.ProxyConfig, self.proxy_config)
        context = parking_context(config.ssl_context) if config.ssl_context else self.terms.without_client().context()
        self.proxy_config = config._replace(ssl_context=context)
        return super()._connect_tls_proxy(hostname, sock)


# ---- TLS


def parking_context(context: Any) -> Any:
    """Have a context of somebody else make our sockets."""
    if not issubclass(context.sslsocket_class, SSLSocket):
        context.sslsocket_class = SSLSocket
    return context


class SharedContext(SSLContext):
    """A context that connections share.

    For each one urllib3 sets the protocols to offer anew: they are always the same, and OpenSSL does not bear that
    while another OS thread begins a connection.
    """

    offered: Any = None

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        if self.offered != alpn_protocols:
            super().set_alpn_protocols(alpn_protocols)
            self.offered = alpn_protocols


class Terms(NamedTuple):
    """All that makes one TLS context differ from another."""

    cert_reqs: Any
    ca_certs: str | None
    ca_cert_dir: str | None
    ca_cert_data: str | bytes | None
    cert_file: str | None
    key_file: str | None
    key_password: str | None
    versions: tuple[Any, Any, Any]
    names: tuple[Any, Any]  # which urllib3 checks itself

    @classmethod
    def of(cls, conn: connection.HTTPSConnection) -> Terms:
        versions = (conn.ssl_version, conn.ssl_minimum_version, conn.ssl_maximum_version)
        names = (conn.assert_hostname, conn.assert_fingerprint)
        trust = (conn.ca_certs, conn.ca_cert_dir, conn.ca_cert_data)
        return cls(conn.cert_reqs, *trust, conn.cert_file, conn.key_file, conn.key_password, versions, names)

    def without_client(self) -> Terms:
        """Return what holds for a proxy, which is shown no client certificate."""
        return self._replace(cert_file=None, key_file=None, key_password=None)

    def context(self) -> SharedContext:
        """Return the context for these, made anew if a file has changed."""
        return make_context(self, tuple(map(stamp, (self.ca_certs, self.cert_file, self.key_file))))


def stamp(path: str | None) -> tuple[int, ...] | None:
    """Return what changes with a file's content."""
    try:
        status = os.stat(path) if path else None
    except OSError:
        return None
    return status and (status.st_mtime_ns, status.st_ino, status.st_size)


@lru_cache(maxsize=CONTEXTS)
def make_context(terms: Terms, stamps: object) -> SharedContext:
    version, minimum, maximum = terms.versions
    context: Any = create_urllib3_context(
        ssl_version=resolve_ssl_version(version) if version else None,
        ssl_minimum_version=minimum,
        ssl_maximum_version=maximum,
        cert_reqs=resolve_cert_reqs(terms.cert_reqs),
    )
    context.__class__ = SharedContext
    trust = (terms.ca_certs, terms.ca_cert_dir, terms.ca_cert_data)
    if any(trust):
        try:
            context.load_verify_locations(*trust)
        except OSError as error:
            raise SSLError(error) from error
    elif context.verify_mode != ssl.CERT_NONE:
        context.load_default_certs()
    if terms.cert_file:
        context.load_cert_chain(terms.cert_file, terms.key_file, terms.key_password or refuse_to_ask)
    return cast(SharedContext, context)


def refuse_to_ask() -> str:
    """Stand in for a password that is missing: OpenSSL would ask for it on the terminal."""
    raise SSLError(
        "the key of the client's certificate is encrypted: give one that is not, or a context with its password"
    )


# ---- pools


class Shelf(LifoQueue[Any]):
    """The idle connections to one host, and in a bounded pool a None for each more that may be opened.

    Whatever ends a request, urllib3 puts back what it got; after a ``get`` that was cancelled a None that it never had:
    one ``owed``, which is not taken in.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.owed: list[None] = []

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return super().get(block, timeout)
        except Empty:
            raise
        except BaseException:
            self.owed.append(None)
            raise

    def empty_out(self) -> None:
        """Close the connections; in a bounded pool their places stay."""
        places = 0
        try:
            while True:
                idle = self.get(block=False)
                places += 1
                if idle is not None:
                    idle.close()
        except Empty:
            pass
        for _ in range(places):
            self.put(None)

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if item is not None:
            item.idle_since = originals.monotonic()
            super().put(item, block, timeout)
            self.drop_stale(item.idle_since - IDLE)
        elif self.maxsize and not self.settle():
            super().put(item, block, timeout)

    def drop_stale(self, deadline: float) -> None:
        """Close what has been idle since before the deadline: the bottom of the stack, which nobody may reach again.

        A bounded pool has Nones there; its bound suffices.
        """
        try:
            while self.queue[0] is not None and self.queue[0].idle_since < deadline:
                self.queue.pop(0).close()
        except IndexError:  # another OS thread has taken the last one
            pass

    def settle(self) -> bool:
        """Settle one that is owed, if there is one."""
        try:
            self.owed.pop()
        except IndexError:
            return False
        return True


class HTTPConnectionPool(connectionpool.HTTPConnectionPool):
    """The connections to one host."""

    ConnectionCls: Any = HTTPConnection
    QueueCls: Any = Shelf

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, body: Any = None, headers: Any = None, retries: Any = None, *rest: Any, **more: Any
    ) -> Any:
        this_waiter()  # or say at once that parking cannot work here
        return super().urlopen(method, url, body, headers, parking_retries(retries), *rest, **more)


class HTTPSConnectionPool(HTTPConnectionPool, connectionpool.HTTPSConnectionPool):
    """The TLS connections to one host."""

    ConnectionCls = HTTPSConnection


class Retry(StandardRetry):
    """How often, and with which pauses, to try again. Parks: ``sleep``, while it pauses. Source: ``urllib3.Retry``."""

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
    """Return retries of urllib3, or of a kind derived from it, that pause by parking; those that never pause as is."""
    if isinstance(retries, Retry) or not isinstance(retries, StandardRetry) or retries.total == 0:
        return retries
    kind: Any = type(retries)
    retries = copy.copy(retries)
    retries.__class__ = parking_kind(kind)
    return retries


@cache
def parking_kind(kind: Any) -> Any:
    return Retry if kind is StandardRetry else type(kind.__name__, (kind, Retry), {})


# ---- where they are used

KINDS_OF_POOL: Any = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


def make_park(manager: Any) -> None:
    """Have a pool manager make our pools. Those that it drops keep no connection, whoever may still refer to them."""
    if manager.pool_classes_by_scheme is not KINDS_OF_POOL:
        manager.clear()  # it may have been in use
        manager.pool_classes_by_scheme = KINDS_OF_POOL
        manager.pools.dispose_func = close_idle


def close_idle(pool: HTTPConnectionPool) -> None:
    """Close the idle connections of a pool, which stays of use to whoever has it."""
    shelf: Any = pool.pool
    if shelf is not None:
        shelf.empty_out()
