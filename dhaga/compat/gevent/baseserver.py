"""``gevent.baseserver``: the base class of StreamServer, DatagramServer and WSGIServer."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any, Self

from greenlet import getcurrent

from ... import socket as ours
from ..._kernel.errors import Cancelled
from ..._sync.event import Event
from .greenlet import Greenlet
from .hub import get_hub, sleep, spawn_raw
from .pool import Pool

__all__ = ["BaseServer"]

logger: logging.Logger = logging.getLogger("dhaga")


class BaseServer:
    """A server that spawns ``handle`` for each connection or datagram. Source: ``gevent.baseserver.BaseServer``.

    ``listener``: an address, such as ``("", 8000)`` or ``":8000"``, or a socket. ``spawn``: a Pool, the size of a new
    Pool, a function like ``gevent.spawn``, "default" or "raw"; None handles connections one after another. A stopped
    server can be started again if it created its socket itself.
    """

    min_delay: float = 0.01
    max_delay: int = 1
    """Maximum delay in seconds before the next accept after an error, for example if the system lacks descriptors."""

    max_accept = 100
    """Number of connections accepted in a row before other greenlets run."""

    stop_timeout = 1
    """Number of seconds that ``stop`` waits for the handlers of a pool."""

    fatal_errors: tuple[int, int, int] = errno.EBADF, errno.EINVAL, errno.ENOTSOCK
    """Errors after which the socket accepts no more connections."""

    def __init__(self, listener: Any, handle: Callable[..., Any] | None = None, spawn: Any = "default") -> None:
        self.delay: float = self.min_delay
        self.pool: Any = None
        self.closes: bool = False  # whether the server creates its socket
        self._stop_event = Event()
        self._stop_event.set()
        self._acceptor: Any = None
        self._stopped: Any = None
        self.set_spawn(spawn)
        self.set_handle(handle)
        self.set_listener(listener)

    def __repr__(self) -> str:
        state = "started" if self.started else "not started"
        handle: Any = self.handle
        if getattr(handle, "__self__", None) is self:  # the handler's repr would call this method again
            handle = f"<bound method {type(self).__name__}.{handle.__name__} of self>"
        return f"<{type(self).__name__} at {id(self):#x} {state} at {self.address!r} handle={handle}>"

    def __enter__(self) -> Self:
        """Return the server, which the block starts itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- its parts

    def set_listener(self, listener: Any) -> None:
        """Set the address to listen on, or the listening socket."""
        if hasattr(listener, "accept"):
            self.socket: Any = listener
            if not isinstance(listener, ours.socket):
                self.socket = ours.fromfd(listener.fileno(), listener.family, listener.type, listener.proto)
            self.socket.setblocking(True)
            self.family = listener.family
            self.address = listener.getsockname()
        else:
            self.family, self.address = parse_address(listener)
            self.closes = True

    def set_spawn(self, spawn: Any) -> None:
        """Set the function that spawns handlers."""
        if spawn == "default":
            self.pool, self._spawn = None, Greenlet.spawn
        elif spawn == "raw":
            self.pool, self._spawn = None, spawn_raw
        elif spawn is None:
            self.pool, self._spawn = None, call
        elif hasattr(spawn, "spawn"):
            self.pool, self._spawn = spawn, spawn.spawn
        elif isinstance(spawn, int):
            self.pool = Pool(spawn)
            self._spawn = self.pool.spawn
        elif callable(spawn):
            self.pool, self._spawn = None, spawn
        else:
            raise TypeError(f"spawn is a Pool, a number, a function, 'default', 'raw' or None, not {spawn!r}")

    def set_handle(self, handle: Callable[..., Any] | None) -> None:
        """Set the handler if one is given. Raises: TypeError if neither the caller nor the class provides a handler."""
        if handle is not None:
            self.handle = handle
        if not callable(getattr(self, "handle", None)):
            raise TypeError("'handle' must be provided")

    handle: Callable[..., Any]

    # ---- its state

    @property
    def started(self) -> bool:
        """Whether the server accepts connections."""
        return not self._stop_event.is_set()

    @property
    def closed(self) -> bool:
        """Whether the server does not accept connections."""
        return self._stop_event.is_set()

    @property
    def server_host(self) -> Any:
        """The host of the server's address."""
        return self.address[0] if isinstance(self.address, tuple) else None

    @property
    def server_port(self) -> Any:
        """The port of the server's address."""
        return self.address[1] if isinstance(self.address, tuple) else None

    def full(self) -> bool:
        """Return whether the server's pool is full."""
        return self.pool is not None and self.pool.full()

    # ---- accepting

    def init_socket(self) -> None:
        """Hook for subclasses: create the socket if it does not exist."""

    def pre_start(self) -> None:
        """Prepare the server to start. From: ``start`` of this class and of its subclasses."""
        self.init_socket()

    def do_read(self) -> tuple[Any, ...]:
        """Return the arguments for the next call of the handler. Parks: until a connection or a datagram arrives."""
        raise NotImplementedError

    def do_close(self, *args: Any) -> None:
        """Hook for subclasses: close a connection that ``do_read`` returned."""

    def start(self) -> None:
        """Start a greenlet that accepts connections. Parks: never. Raises: OSError if the socket cannot be created."""
        if self.started:
            return
        self._stopped = None
        self.pre_start()
        self._stop_event.clear()
        self._acceptor = Greenlet.spawn(self._take, self.socket)

    def start_accepting(self) -> None:
        """Resume accepting connections."""
        if self._acceptor is None:
            self._acceptor = Greenlet.spawn(self._take, self.socket)

    def stop_accepting(self) -> None:
        """Pause accepting connections, but keep the socket open."""
        acceptor, self._acceptor = self._acceptor, None
        if acceptor is not None:
            acceptor.kill(block=False)

    def _take(self, sock: Any) -> None:
        taken = 0
        while sock is getattr(self, "socket", None):
            if self.pool is not None and hasattr(self.pool, "wait_available"):
                self.pool.wait_available()
            try:
                args = self.do_read()
            except OSError as error:
                if sock is not getattr(self, "socket", None):
                    return
                if self.is_fatal_error(error):
                    logger.error("%r takes nothing more: %s", self, error)
                    self.close()
                    return
                logger.error("%r: %s; the next try is in %s s", self, error, self.delay)
                sleep(self.delay)
                self.delay = min(self.max_delay, self.delay * 2)
                continue
            self.delay = self.min_delay
            try:
                self.do_handle(*args)
            except BaseException as error:
                if self._acceptor is not getcurrent() or isinstance(error, Cancelled):
                    raise
                get_hub().handle_error(self, type(error), error, error.__traceback__)
                sleep(self.delay)
            taken += 1
            if taken % self.max_accept == 0:
                sleep(0)

    def is_fatal_error(self, error: BaseException) -> bool:
        """Return whether the socket accepts no more connections after this error."""
        return isinstance(error, OSError) and error.errno in self.fatal_errors

    def do_handle(self, *args: Any) -> None:
        """Spawn the handler."""
        try:
            self._spawn(self._handle, *args)
        except BaseException:
            self.do_close(*args)
            raise

    def _handle(self, *args: Any) -> None:
        try:
            self.handle(*args)
        finally:
            self.do_close(*args)

    # ---- the end

    def close(self) -> None:
        """Stop accepting and close the socket; running handlers continue. Parks: never."""
        self._stop_event.set()
        sock = self.__dict__.pop("socket", None)
        self._stopped, self._acceptor = self._acceptor or self._stopped, None
        if self._stopped is not None and self._stopped is not getcurrent():
            self._stopped.kill(block=False)
        if sock is not None:
            sock.close()

    def stop(self, timeout: float | None = None) -> None:
        """Stop accepting, wait for the handlers of a pool, and kill the remaining handlers.

        Parks: while handlers of a pool run, at most ``timeout`` seconds (default: ``stop_timeout``), and at most 1 s
        more while they end after the kill. Without a pool, the handlers continue to run.
        """
        self.close()
        if self._stopped is not None and self._stopped is not getcurrent():
            self._stopped.join()
        if self.pool is not None:
            self.pool.join(timeout=self.stop_timeout if timeout is None else timeout)
            self.pool.kill(block=True, timeout=1)

    def serve_forever(self, stop_timeout: float | None = None) -> None:
        """Start the server unless it is running; at the end, stop it. Parks: until ``close`` or ``stop`` is called."""
        if not self.started:
            self.start()
        try:
            self._stop_event.wait()
        finally:
            Greenlet.spawn(self.stop, timeout=stop_timeout).join()


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call a handler in the greenlet that accepts connections."""
    return function(*args)


def parse_address(address: Any) -> tuple[Any, Any]:
    """Return family and address. ``address``: ``(host, port)``, ``"host:port"``, ``":port"``, a port, or a path."""
    if isinstance(address, int):
        address = ("", address)
    elif isinstance(address, str):
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            if "/" not in address:
                raise ValueError(
                    f"an address is (host, port), 'host:port', ':port' or a listening socket, not {address!r}"
                )
            return ours.AF_UNIX, address
        address = (host.strip("[]"), int(port))
    if not isinstance(address, tuple) or len(address) < 2:
        raise TypeError(f"an address is (host, port), 'host:port', ':port' or a listening socket, not {address!r}")
    host = "" if address[0] == "*" else address[0] or ""
    return ours.AF_INET6 if ":" in host else ours.AF_INET, (host, *address[1:])
