"""TCPServer: one dhaga per connection, over TCP or a Unix socket, with or without TLS.

A server belongs to the scheduler on which ``start`` ran. It has one acceptor dhaga per listener and one ``Connection``
per client; several OS threads serve one address with a server each (``scheduler.spawn(server.start)``), several
processes through ``_prefork``. ``_acceptor`` decides how many connections are accepted at once.

Life of a connection: accepted under a permit of ``max_connections`` -> admitted to the scheduler -> TLS handshake, if
any -> handler -> close_notify -> socket closed, permit released. The permit is acquired only once a client is there, so
that a full server stops accepting and the backlog gives back-pressure.
Life of a server: not started -> serving -> stopping (listeners closed, handlers may finish) -> stopped (no acceptor and
no connection is left). ``close`` and ``cancel_all`` run on the server's scheduler; ``stop`` may be called from anywhere
and sends them there. The end of an acceptor, for any reason, stops the server, so that a missing listener is noticed.
"""

from __future__ import annotations

import logging
import ssl as standard_ssl
from collections.abc import Callable
from typing import Any, Self

from .._kernel.api import Timeout, spawn
from .._kernel.errors import ParkError
from .._kernel.faces.arguments import check_function, check_seconds
from .._kernel.process.current_scheduler import current_scheduler
from .._kernel.run.call_outs import calls_out
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.run.uncaught import find_exit
from .._kernel.wait.current import this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._sync.semaphore import Semaphore
from ..aio._run_in_dhaga import run_in_dhaga
from ..socket import socket
from ..ssl import SSLSocket
from ._acceptor import Acceptor
from ._listeners import BACKLOG, Address, close_all, format_address, listen

logger = logging.getLogger("dhaga")

MAX_CONNECTIONS = 10_000
"""Default bound of connections per server.

An idle connection takes 10 KB; the limit of open files is often lower.
"""

HANDSHAKE_SECONDS = 10.0
"""Time for the two round trips of a TLS handshake. Each may lose a packet twice, which costs 1 + 2 s."""

GRACE = 5.0
"""Seconds that handlers get to finish at the end of a ``with`` block, and after a Ctrl-C in ``serve_forever``."""


class Connection(Dhaga):
    """The dhaga that serves one connection; the socket is closed when it ends."""

    __slots__ = ("peer", "server", "sock")

    makes_calls = True

    def __init__(self, server: TCPServer, sock: socket, peer: Any) -> None:
        super().__init__(server.scheduler, self.serve, daemon=True)
        self.server: TCPServer = server
        self.sock: Any = sock
        self.peer: Any = peer

    @property
    def name(self) -> str:
        """The name given, else the server's name with the peer's address; may be set."""
        return self.own_name or f"{self.server.name}, connection from {format_address(self.peer)}"

    @name.setter
    def name(self, name: str) -> None:
        self.own_name = name

    @calls_out
    def serve(self) -> None:
        server = self.server
        if server.ssl_context is None:
            server.handler(self.sock, self.peer)
        elif self.handshake():
            server.handler(self.sock, self.peer)
            self.send_close_notify()

    def handshake(self) -> bool:
        """Wrap the socket in TLS.

        Returns: whether the handshake succeeded; a failure is the peer's fault, and logged at INFO.
        """
        context: Any = self.server.ssl_context
        try:
            tls = self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
            with Timeout(self.server.handshake_timeout):
                tls.do_handshake()
        except OSError as error:  # includes SSLError and TimeoutError
            logger.info("%s: no TLS: %s", self.name, error)
            return False
        return True

    def send_close_notify(self) -> None:
        """Send TLS's close_notify, so that the peer can tell the end from a truncation; do not wait for the answer."""
        tls: Any = self.sock
        try:
            tls.settimeout(0)
            tls.unwrap()
        except (OSError, ValueError):  # the send would block, or the handler has closed the socket
            pass

    def _report(self, error: BaseException) -> None:
        """Log an exception of the handler, but no cancel; SystemExit and KeyboardInterrupt end the program as usual."""
        if isinstance(error, Exception):
            logger.error("%s: the handler failed", self.name, exc_info=error)
            return
        super()._report(error)
        if self.server.on_exit is not None and (exit := find_exit(error)) is not None:
            self.server.on_exit(exit)

    def _end(self) -> None:
        try:
            super()._end()
            self.sock.close()
        finally:
            self.server.on_connection_end(self)


class TCPServer:
    """Calls ``handler(sock, peer)`` in a new dhaga for each connection, and closes the socket when it returns.

    With an ``ssl_context`` the handshake runs in that dhaga, within ``handshake_timeout`` seconds; a standard context
    is changed to create sockets that park. An exception of a handler is logged and ends only its connection. Beyond
    ``max_connections`` clients wait in the ``backlog``. Long-lived handlers should check ``stopping``.

    >>> from dhaga.socket import create_connection
    >>> with TCPServer(lambda sock, peer: sock.sendall(sock.recv(99)), ("127.0.0.1", 0)) as server:
    ...     with create_connection(server.address) as client:
    ...         client.sendall(b"echo")
    ...         client.recv(99)
    b'echo'
    """

    def __init__(
        self,
        handler: Callable[[socket, Any], object],
        address: Address = ("127.0.0.1", 0),
        *,
        ssl_context: standard_ssl.SSLContext | None = None,
        max_connections: int = MAX_CONNECTIONS,
        backlog: int = BACKLOG,
        reuse_port: bool = False,
        handshake_timeout: float | None = HANDSHAKE_SECONDS,
        name: str = "server",
    ) -> None:
        if not callable(handler):
            raise TypeError(
                f"a handler is called with a socket and the peer's address, but {handler!r} is not callable"
            )
        check_function(handler, "TCPServer")
        if max_connections < 1:
            raise ValueError(f"max_connections must be one or more, not {max_connections!r}")
        if ssl_context is not None and not issubclass(ssl_context.sslsocket_class, SSLSocket):
            ssl_context.sslsocket_class = SSLSocket
        self.handler = handler
        self.requested_address = address
        self.ssl_context = ssl_context
        self.backlog = backlog
        self.reuse_port = reuse_port
        check_seconds(handshake_timeout)
        self.handshake_timeout = handshake_timeout
        self.name = name
        self.permits: Semaphore = Semaphore(max_connections)
        self.addresses: list[Any] = []
        self.listeners: list[socket] = []
        # Dictionaries, because they have an order: the first to come is the first to be stopped.
        self.acceptors: dict[Acceptor, None] = {}
        self.connections: dict[Connection, None] = {}
        self.stopping: bool = False
        self.processes: int = 1  # number of processes that accept from the same listeners
        # Gets the SystemExit or KeyboardInterrupt of a handler in an OS thread that has no main code to pass it to.
        self.on_exit: Callable[[BaseException], object] | None = None
        self.end_waiters: WaitQueue = WaitQueue(self, f"end of {name}")
        self.scheduler: Scheduler = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = ", ".join(map(format_address, self.addresses)) or self.requested_address
        state = "stopped" if self.ended else "stopping" if self.stopping else "serving"
        if self.scheduler is None:
            state = "not started"
        return f"<{type(self).__name__} {self.name} at {where} {state}, {len(self.connections)} connections>"

    @property
    def address(self) -> tuple[str, int]:
        """The first of ``addresses``: host, and the port that the kernel chose. Raises: RuntimeError before ``start``.

        The type fits TCP over IPv4; IPv6 appends flow and scope, and a Unix socket's address is its path.
        """
        if not self.addresses:
            raise RuntimeError(f"{self!r} has no address before start()")
        return self.addresses[0]  # type: ignore[no-any-return]

    @property
    def ended(self) -> bool:
        """Whether the server was stopped and its last handler has ended."""
        return self.stopping and not self.connections and not self.acceptors

    # ---- accepting

    def start(self) -> Self:
        """Listen and start accepting, on the caller's scheduler. Parks: never. Raises: OSError, RuntimeError."""
        if self.scheduler is not None or self.stopping:
            raise RuntimeError(f"{self!r} was already started: create a new one")
        self.listeners = listen(self.requested_address, self.backlog, self.reuse_port)
        self.scheduler = current_scheduler()
        self.addresses = [listener.getsockname() for listener in self.listeners]
        self.acceptors = dict.fromkeys(Acceptor(self, listener) for listener in self.listeners)
        for acceptor in self.acceptors:
            self.scheduler.admit(acceptor)
        return self

    def admit(self, sock: socket, peer: Any) -> None:
        """Start the dhaga of a connection that an acceptor has a permit for."""
        connection = Connection(self, sock, peer)
        self.connections[connection] = None
        self.scheduler.admit(connection)

    def on_acceptor_end(self, acceptor: Acceptor) -> None:
        """Stop the server, so that a listener without an acceptor is noticed."""
        self.acceptors.pop(acceptor, None)
        self.close()

    def on_connection_end(self, connection: Connection) -> None:
        """Remove an ended connection and release its permit."""
        self.connections.pop(connection, None)
        self.permits.release()
        if self.stopping:
            self.wake_end_waiters()

    # ---- the end

    def serve_forever(self, grace: float | None = GRACE) -> None:
        """Serve until ``stop`` is called; a Ctrl-C or a cancel stops the server within ``grace`` seconds.

        Parks: until the server has ended (``end of NAME``). From: a dhaga, main code, any OS thread. Starts the server
        if needed.
        """
        check_seconds(grace)
        if self.scheduler is None:
            self.start()
        try:
            self.end_waiters.wait(True, self.wake_end_waiters)
        finally:
            self.stop(grace)

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting, give handlers ``timeout`` seconds to finish, then cancel the rest and wait for their end.

        Parks: until the last has ended (``end of NAME``); never when called by a handler of this server. A cancel of
        the caller, a Ctrl-C, or another stop with a shorter timeout ends the wait earlier. From: a dhaga, main code,
        any OS thread. Raises: ParkError in coroutines and callbacks.
        """
        check_seconds(timeout)
        me = this_waiter()
        self.stopping = True
        if self.scheduler is None:
            return
        if not self.scheduler.thread_ident:  # the scheduler has ended, or is the parent process's
            self.discard_dead()
        elif me in self.connections:
            spawn(self.stop, timeout, name=f"stop {self.name}", daemon=True)
        else:
            self.scheduler.call(self.close)
            self.wait_for_end(timeout)

    def wait_for_end(self, timeout: float | None) -> None:
        try:
            self.end_waiters.wait(True, self.wake_end_waiters, timeout)
        finally:
            self.scheduler.call(self.cancel_all)
            self.end_waiters.wait_uncancellable(self.wake_end_waiters)

    def close(self) -> None:
        """Begin a graceful stop; no-op if begun. Parks: never. From: the server's scheduler."""
        self.stopping = True
        if self.listeners:
            for acceptor in list(self.acceptors):
                acceptor.cancel(f"{self.name} stops")
            close_all(self.listeners)
            self.listeners = []
            for connection in list(self.connections):
                self.release(connection)
        self.wake_end_waiters()

    def release(self, connection: Connection) -> None:
        """Hook for subclasses: called once for each live connection when a graceful stop begins. Must not park."""

    def cancel_all(self) -> None:
        for connection in list(self.connections):
            connection.cancel(f"{self.name} stops")

    def wake_end_waiters(self) -> None:
        """If the server has ended, wake the callers that wait for its end."""
        if self.ended:
            self.end_waiters.wake_all()

    def discard_dead(self) -> None:
        """Close the sockets of a server whose scheduler has ended, or is in the parent process."""
        close_all(self.listeners)
        for connection in self.connections:
            connection.sock.close()
        self.connections.clear()
        self.acceptors.clear()

    def __enter__(self) -> Self:
        try:
            this_waiter()
        except ParkError as error:
            raise ParkError(
                f"the end of `with {type(self).__name__}(...)` parks, which coroutines and callbacks cannot:\n"
                "write `async with` in a coroutine; a callback calls start(), and spawn(server.stop)"
            ) from error
        return self.start()

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop(GRACE if kind is None else 0)

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(self, kind: object, *_: object) -> None:
        await run_in_dhaga(self.stop, GRACE if kind is None else 0)
