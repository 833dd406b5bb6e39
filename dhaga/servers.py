"""TCPServer: a dhaga for each connection, over TCP or a Unix socket, with or without TLS.

A server lives on the scheduler where it was started. Several OS threads serve one address with a server each, made
from the same listening socket: ``scheduler.spawn(server.start)``. Several processes: ``processes.py``. How an address
becomes a listening socket: ``listeners.py``.
"""

from __future__ import annotations

import errno
import logging
import ssl as standard_ssl
from collections.abc import Callable
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Self

from .kernel.api import Timeout, sleep, spawn
from .kernel.callers import scheduler_here
from .kernel.microthread import Dhaga, refuse
from .kernel.scheduler import Scheduler
from .kernel.waiting import WaitQueue, this_waiter
from .listeners import BACKLOG, Address, close_all, listen, name_of_address
from .patience import family_of, type_of
from .semaphores import Semaphore
from .socket import accept_once, socket
from .ssl import SSLSocket

logger = logging.getLogger("dhaga")

MAX_CONNECTIONS = 10_000
"""Connections of a server at once. Idle ones take 10 KB each; before that, the limit of open files bounds most."""

HANDSHAKE_SECONDS = 10.0
"""For the two round trips of a TLS handshake, each of which may lose a packet twice (1 + 2 s) and be in time."""

GRACE = 5.0
"""Seconds that handlers have to finish at the end of a ``with`` block, and after a Ctrl-C in ``serve_forever``."""

SHARE = 16
"""For so many connections that a server has it accepts one more at a time. With one at a time in any case, each after a
turn of all that it has, the last of 1,000 busy clients waited for a second (wrk -c1000: p99 890 ms, now 32); with a
share of 8, eight threads that block began to take bursts from each other.
"""

PAUSE = 0.1
"""Seconds between two tries where the system has no descriptor or memory left for a connection."""

EXHAUSTED = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM
GONE = (
    *(errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.ENOPROTOOPT),
    *(errno.ENETDOWN, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETUNREACH),
)
"""What accept(2) says of a connection that has ended in the backlog, or whose network has."""


class Connection(Dhaga):
    """The dhaga that serves one connection; the socket is closed when it ends."""

    __slots__ = ("peer", "server", "sock")

    def __init__(self, server: TCPServer, sock: socket, peer: Any) -> None:
        super().__init__(server.scheduler, self.serve, daemon=True)
        self.server = server
        self.sock = sock
        self.peer = peer

    @property
    def name(self) -> str:
        """The name given, or that of the server with the peer's address; may be set."""
        return self.given_name or f"{self.server.name}, connection from {name_of_address(self.peer)}"

    @name.setter
    def name(self, name: str) -> None:
        self.given_name = name

    def serve(self) -> None:
        server = self.server
        if server.ssl_context is None:
            server.handler(self.sock, self.peer)
        elif self.shake_hands():
            server.handler(self.sock, self.peer)
            self.say_goodbye()

    def shake_hands(self) -> bool:
        """Put TLS on the connection. Returns: whether that came about; if not, it is the peer's matter."""
        context: Any = self.server.ssl_context
        try:
            tls = self.sock = context.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)
            with Timeout(self.server.handshake_timeout):
                tls.do_handshake()
        except OSError as error:  # SSLError and TimeoutError are such
            logger.info("%s: no TLS: %s", self.name, error)
            return False
        return True

    def say_goodbye(self) -> None:
        """Tell the peer that all has been sent, so that it knows this from a cut; do not wait for its answer."""
        tls: Any = self.sock
        try:
            tls.settimeout(0)
            tls.unwrap()
        except (OSError, ValueError):  # it would have to wait, or the handler has closed it
            pass

    def report(self, error: BaseException) -> None:
        """Log what the handler has raised. A cancel is no error, and what ends the program is not the handler's."""
        if isinstance(error, Exception):
            logger.error("%s: the handler failed", self.name, exc_info=error)
        else:
            super().report(error)

    def end(self) -> None:
        try:
            super().end()
            self.sock.close()
        finally:
            self.server.leave(self)


class Acceptor(Dhaga):
    """The dhaga that accepts connections of one listener; with its end the server stops."""

    __slots__ = ("server",)

    def __init__(self, server: TCPServer, listener: socket) -> None:
        super().__init__(server.scheduler, server.accept_from, (listener,), daemon=True)
        self.server = server
        self.given_name = f"{server.name}, acceptor at {name_of_address(listener.getsockname())}"

    def end(self) -> None:
        super().end()
        self.server.acceptors.discard(self)
        self.server.close()


class TCPServer:
    """Call ``handler(sock, peer)`` for each connection, in a dhaga of its own; the socket is closed when it returns.

    With an ``ssl_context`` the handshake is made in that dhaga, within ``handshake_timeout`` seconds; a context of the
    standard is made to make cooperative sockets. What a handler raises is logged and ends its connection alone. Beyond
    ``max_connections`` clients wait in the ``backlog``. ``stopping``: for handlers that live long to look at.
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
            raise TypeError(f"a handler is called with a socket and the peer's address; {handler!r} cannot be called")
        if iscoroutinefunction(handler):
            refuse(handler)
        if max_connections < 1:
            raise ValueError(f"max_connections must be one or more, not {max_connections!r}")
        if ssl_context is not None and not issubclass(ssl_context.sslsocket_class, SSLSocket):
            ssl_context.sslsocket_class = SSLSocket
        self.handler = handler
        self.where = address
        self.ssl_context = ssl_context
        self.backlog = backlog
        self.reuse_port = reuse_port
        self.handshake_timeout = handshake_timeout
        self.name = name
        self.permits = Semaphore(max_connections)
        self.addresses: list[Any] = []
        self.listeners: list[socket] = []
        self.acceptors: set[Acceptor] = set()
        self.connections: set[Connection] = set()
        self.stopping = False
        self.exhausted = False
        self.leavers = WaitQueue(self, f"end of {name}")
        self.scheduler: Scheduler = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        where = ", ".join(map(name_of_address, self.addresses)) or self.where
        state = "stopped" if self.ended else "stopping" if self.stopping else "serving"
        if self.scheduler is None:
            state = "not started"
        return f"<{type(self).__name__} {self.name} at {where} {state}, {len(self.connections)} connections>"

    @property
    def address(self) -> Any:
        """The first of ``addresses``, at which it listens, with the port filled in."""
        if not self.addresses:
            raise RuntimeError(f"{self!r} has no address before start()")
        return self.addresses[0]

    @property
    def ended(self) -> bool:
        """Tell whether it was stopped, and the last handler has ended."""
        return self.stopping and not self.connections and not self.acceptors

    # ---- accepting

    def start(self) -> Self:
        """Listen, and accept from now on, on the caller's scheduler. Parks: never. Raises: OSError, RuntimeError."""
        if self.scheduler is not None or self.stopping:
            raise RuntimeError(f"{self!r} was started before: make another one")
        self.listeners = listen(self.where, self.backlog, self.reuse_port)
        self.scheduler = scheduler_here()
        self.addresses = [listener.getsockname() for listener in self.listeners]
        self.acceptors = {Acceptor(self, listener) for listener in self.listeners}
        for acceptor in self.acceptors:
            self.scheduler.admit(acceptor)
        return self

    def accept_from(self, listener: socket) -> None:
        """Accept, and let the connections have their turn: of several servers at one address none takes a burst alone.

        64 connections to 8 OS threads whose handlers block were served at 1430 requests/s that way, at 330 where each
        took what was there. It costs 3 µs of the 41 that a connection takes.
        """
        try:
            while True:
                for _ in range(1 + len(self.connections) // SHARE):
                    self.accept_one(listener)
                sleep(0)
        except OSError:
            if not self.stopping:
                logger.exception("%s accepts no more connections", self.name)

    def accept_one(self, listener: socket) -> None:
        """Start the dhaga of the next connection, once there is one."""
        try:
            fd, peer = listener.reading(0, self.take)
        except OSError as error:
            if error.errno in EXHAUSTED:
                self.back_off(error)
            elif error.errno not in GONE:
                raise
            return
        sock = socket(family_of(listener), type_of(listener), listener.proto, fileno=fd)
        connection = Connection(self, sock, peer)
        self.connections.add(connection)
        self.scheduler.admit(connection)

    def take(self, listener: socket) -> Any:
        """Accept a connection that is there, if one more may be; a permit is kept for those alone.

        Raises: BlockingIOError.
        """
        self.permits.acquire()
        try:
            return accept_once(listener)
        except BaseException as error:
            self.permits.release()
            if isinstance(error, BlockingIOError):
                self.exhausted = False
            raise

    def back_off(self, error: OSError) -> None:
        """Wait a moment; say so once, until all have been accepted that wait."""
        if not self.exhausted:
            self.exhausted = True
            logger.error(
                "%s cannot accept more connections: %s. %d are open; it goes on trying. To have clients wait before it "
                "comes to that, lower max_connections; to serve more, raise the limit (ulimit -n)",
                *(self.name, error, len(self.connections)),
            )
        sleep(PAUSE)

    def leave(self, connection: Connection) -> None:
        """Let a connection go that has ended."""
        self.connections.discard(connection)
        self.permits.release()
        if self.stopping:
            self.release_leavers()

    # ---- the end

    def serve_forever(self, grace: float | None = GRACE) -> None:
        """Serve until ``stop`` is called; a Ctrl-C, or a cancel, stops the server, within ``grace`` seconds.

        Parks: until it has ended (``end of NAME``). From: a dhaga, main code, any OS thread. Starts it, if need be.
        """
        if self.scheduler is None:
            self.start()
        try:
            self.leavers.wait(True, self.release_leavers)
        finally:
            self.stop(grace)

    def stop(self, timeout: float | None = None) -> None:
        """Accept no more, let handlers finish for ``timeout`` seconds, then cancel the rest and wait for their end.

        Parks: until the last has ended (``end of NAME``); called by a handler of this server it does not wait. A cancel
        of the caller, a Ctrl-C, or another stop with a shorter timeout quickens it. From: a dhaga, main code, any OS
        thread. Raises: ParkError in coroutines and callbacks.
        """
        me = this_waiter()
        self.stopping = True
        if self.scheduler is None:
            return
        if not self.scheduler.ident:  # it has ended, or stayed in the parent process
            self.let_go()
        elif me in self.connections:
            spawn(self.stop, timeout, name=f"stop {self.name}", daemon=True)
        else:
            self.scheduler.call(self.close)
            self.wait_for_end(timeout)

    def wait_for_end(self, timeout: float | None) -> None:
        try:
            self.leavers.wait(True, self.release_leavers, timeout)
        except TimeoutError:
            pass
        finally:
            self.scheduler.call(self.cancel_all)
            self.leavers.wait_bound(self.release_leavers)

    def close(self) -> None:
        """Begin a graceful stop, once; on the scheduler's thread, where nothing parks."""
        self.stopping = True
        if self.listeners:
            for acceptor in list(self.acceptors):
                acceptor.cancel(f"{self.name} stops")
            close_all(self.listeners)
            self.listeners = []
            for connection in list(self.connections):
                self.release(connection)
        self.release_leavers()

    def release(self, connection: Connection) -> None:
        """Be told, for each live connection, that a graceful stop begins: for subclasses. Must not park."""

    def cancel_all(self) -> None:
        for connection in list(self.connections):
            connection.cancel(f"{self.name} stops")

    def release_leavers(self) -> None:
        """Wake those who wait for the end, if it has come."""
        if self.ended:
            self.leavers.wake_all()

    def let_go(self) -> None:
        """Close what is left here of a server whose dhagas are no more."""
        close_all(self.listeners)
        for connection in self.connections:
            connection.sock.close()
        self.connections.clear()
        self.acceptors.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(GRACE if kind is None else 0)
