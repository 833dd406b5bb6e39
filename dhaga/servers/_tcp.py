"""TCPServer: a server for TCP or Unix sockets, with or without TLS, with one dhaga per connection.

A server belongs to the scheduler on which ``start`` ran. It has one acceptor dhaga per listener, and one ``Connection``
per client. To serve an address in several OS threads, start a server in each thread
(``scheduler.spawn(server.start)``). ``_prefork`` serves an address in several processes. ``_acceptor`` decides how many
connections are accepted at once.

Life of a connection: accepted with a permit of ``max_connections`` -> admitted to the scheduler -> TLS handshake, if
any -> handler -> close_notify -> socket closed, permit released. The permit is acquired only when a client connects. A
full server stops accepting, and further clients wait in the backlog.
Life of a server: not started -> serving -> stopping (listeners closed, handlers may finish) -> stopped (no acceptor and
no connection is left). ``stop`` may be called from any thread, and calls ``close`` and ``cancel_all`` on the server's
scheduler. When an acceptor ends, for any reason, the server stops. Otherwise a listener without an acceptor might
remain unnoticed.
"""

from __future__ import annotations

import logging
import ssl as standard_ssl
from collections.abc import Callable
from typing import Any, Self

from .._kernel.api import spawn
from .._kernel.errors import ParkError
from .._kernel.faces.arguments import check_function, check_seconds, checked_timeout
from .._kernel.process.current_scheduler import current_scheduler
from .._kernel.run.call_outs import calls_out
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.run.uncaught import find_exit, report
from .._kernel.timeout import Timeout
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
"""Default maximum number of connections per server.

An idle connection takes 10 KB of memory. The process's limit of open files is often lower than 10,000.
"""

HANDSHAKE_SECONDS = 10.0
"""Maximum duration of a TLS handshake, in seconds.

A handshake has two round trips. If a packet is lost twice, its round trip takes 1 + 2 s longer.
"""

GRACE = 5.0
"""Seconds that handlers get to finish after a ``with`` block without an error, and when Ctrl-C or a cancel ends
``serve_forever``.
"""


class TCPServer:
    """A server that calls ``handler(sock, peer)`` in a new dhaga for each connection, and then closes the socket.

    With an ``ssl_context``, the TLS handshake also runs in this dhaga, within ``handshake_timeout`` seconds. A standard
    context is changed: from then on, it creates sockets that park. An exception of a handler is logged, and ends only
    the handler's connection. Clients beyond ``max_connections`` wait in the ``backlog``. Long-lived handlers should
    check ``stopping``.

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
        self.handshake_timeout: float | None = checked_timeout(handshake_timeout)
        self.name = name
        self.permits: Semaphore = Semaphore(max_connections)
        self.addresses: list[Any] = []
        self.listeners: list[socket] = []
        # Dictionaries are ordered, so that the oldest acceptor or connection is stopped first.
        self.acceptors: dict[Acceptor, None] = {}
        self.connections: dict[Connection, None] = {}
        self.stopping: bool = False
        self.processes: int = 1  # number of processes that accept from the same listeners
        # Called with a handler's SystemExit or KeyboardInterrupt, which would otherwise end the main code at once.
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
        """The first of ``addresses``, as host and port. Raises: RuntimeError before ``start``.

        If port 0 was requested, the address has the port that the kernel chose. The annotated type is correct for IPv4.
        An IPv6 address also has flow and scope, and the address of a Unix socket is its path.
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
        """Start the dhaga of an accepted connection. The caller has acquired a permit for the connection."""
        connection = Connection(self, sock, peer)
        self.connections[connection] = None
        self.scheduler.admit(connection)

    def on_acceptor_end(self, acceptor: Acceptor) -> None:
        """Stop the server. Otherwise a listener without an acceptor might remain unnoticed."""
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
        """Serve until the server has ended. Ctrl-C or a cancel stops the server within ``grace`` seconds.

        The server is started if needed. Parks: until the server has ended (``end of NAME``). From: a dhaga, main code,
        any OS thread.
        """
        check_seconds(grace)
        if self.scheduler is None:
            self.start()
        try:
            self.end_waiters.wait(True, self.wake_end_waiters)
        finally:
            self.stop(grace)

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting, give handlers ``timeout`` seconds to finish, cancel the rest, and wait until all have ended.

        A cancel of the caller, Ctrl-C, or another call with a shorter timeout cancels the handlers earlier.
        Parks: until the last handler has ended (``end of NAME``); never in a handler of this server. From: a dhaga,
        main code, any OS thread. Raises: ParkError in coroutines and callbacks.
        """
        check_seconds(timeout)
        me = this_waiter()
        self.stopping = True
        if self.scheduler is None:
            return
        if not self.scheduler.thread_ident:  # the scheduler has ended, or belongs to the parent process
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
        """Begin a graceful stop. Later calls have no effect. Parks: never. From: the server's scheduler."""
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
        """Do nothing. Subclasses override this hook, which must not park.

        ``close`` calls it for each live connection when a graceful stop begins.
        """

    def cancel_all(self) -> None:
        for connection in list(self.connections):
            connection.cancel(f"{self.name} stops")

    def wake_end_waiters(self) -> None:
        """Wake the callers that wait for the server's end, if the server has ended."""
        if self.ended:
            self.end_waiters.wake_all()

    def discard_dead(self) -> None:
        """Close the sockets of a server whose scheduler has ended, or belongs to the parent process."""
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


class Connection(Dhaga):
    """The dhaga that serves one connection. When the dhaga ends, the socket is closed."""

    __slots__ = ("peer", "server", "sock")

    makes_calls = True

    def __init__(self, server: TCPServer, sock: socket, peer: Any) -> None:
        super().__init__(server.scheduler, self.serve, daemon=True)
        self.server: TCPServer = server
        self.sock: Any = sock
        self.peer: Any = peer

    @property
    def name(self) -> str:
        """The name of the dhaga, by default the server's name and the peer's address. A program may change the name."""
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
            send_close_notify(self.sock)

    def handshake(self) -> bool:
        """Wrap the socket in TLS. Returns: whether the handshake succeeded.

        A failure is logged at INFO, because the peer causes it.
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

    def _report(self, error: BaseException) -> None:
        """Log an exception of the handler; ignore a cancel.

        A SystemExit or KeyboardInterrupt is passed to ``on_exit``. If there is no ``on_exit``, it ends the program.
        """
        if isinstance(error, Exception):
            logger.error("%s: the handler failed", self.name, exc_info=error)
            return
        exit = find_exit(error)
        if exit is None or self.server.on_exit is None:
            super()._report(error)
            return
        self.server.on_exit(exit)
        if exit is not error:
            report(self, error)

    def _end(self) -> None:
        try:
            super()._end()
            self.sock.close()
        finally:
            self.server.on_connection_end(self)


def send_close_notify(tls: Any) -> None:
    """Send TLS's close_notify without waiting for the answer.

    Without close_notify, the peer could not distinguish the end of the data from a truncation.
    """
    timeout = tls.gettimeout()
    try:
        tls.settimeout(0)
        try:
            tls.unwrap()
        finally:
            tls.settimeout(timeout)
    except (OSError, ValueError):  # the send would block, or the handler has closed the socket
        pass
