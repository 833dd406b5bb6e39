"""gunicorn's worker on dhagas: ``gunicorn -k dhaga.integrations.gunicorn.Worker``, or ``-k egg:dhaga#dhaga``.

``-k dhaga`` works only under ``python -m dhaga -m gunicorn``: gunicorn looks up a bare name among its own workers.
A worker patches itself before it loads the app (``DHAGA_PATCH=0``: it does not); the master stays unpatched. With
``preload_app`` the master imports the app, before the patch: names that the app has bound are replaced where possible.
Each connection is a dhaga, so that one process serves up to ``worker_connections`` slow requests at once. gunicorn's
own ``AsyncWorker`` reads and answers requests: its settings, limits, hooks and access log all apply. This module does
the rest: accepting, the wait for the next request, heartbeat, signals, the stop.

The main code only sends heartbeats: it parks on gunicorn's own self-pipe ``PIPE``, into which gunicorn's signal
handlers and ``wake_heartbeat`` write. (``_kernel.run.loop.WakeupPipe`` cannot replace them: the pipe and the handlers
are gunicorn's.) Signal handlers that log or exit do so in a dhaga: no handler may switch.

A connection is idle while ``timeout_ctx`` is entered. It is then in ``idle_deadlines``, in the order of the deadlines:
all have the same keepalive. To end it, its receiving side is shut down: data already received is still answered. A stop
closes the listeners, ends idle connections after a moment, and cancels the rest after ``graceful_timeout``. As with
gunicorn's own asynchronous workers, there is no time limit for a body that stalls or trickles in, or for a client that
reads nothing. gunicorn advises a proxy in front for that; ``python -m dhaga serve`` has ``http.limits``.

Rejected: the parser of ``http``, which refuses a little more. gunicorn's settings have their meaning in its own parser,
the PROXY protocol and HTTP/2 included, and hooks and log formats read its request objects.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import sys
from contextvars import copy_context
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from signal import SIG_BLOCK, SIG_UNBLOCK, SIGABRT, pthread_sigmask
from socket import SHUT_RD
from types import FrameType, SimpleNamespace
from typing import Any

from greenlet import getcurrent

from .._iowait.socket_base import plain
from .._kernel.api import sleep, spawn
from .._kernel.errors import Cancelled
from .._kernel.faces.extras import missing_extra
from .._kernel.originals import monotonic
from .._kernel.process.current_scheduler import current_scheduler
from .._kernel.run.call_outs import calls_out
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler, begin_new_work
from .._kernel.run.turn_budget import yield_if_due
from .._kernel.run.uncaught import PACKAGE_PREFIX
from ..monkey import _doors, original
from ..select import POLLIN, POLLOUT, poll, select
from ..servers import TCPServer
from ..servers._asgi import is_asgi, refusal

try:
    from gunicorn.config import Chdir
    from gunicorn.errors import AppImportError
    from gunicorn.sock import ssl_context
    from gunicorn.workers.base_async import AsyncWorker
except ModuleNotFoundError as error:
    raise missing_extra("dhaga.integrations.gunicorn", "gunicorn", error) from None

HEARTBEAT_SECONDS = 1.0
"""Seconds between two heartbeats, as in gunicorn's own workers; ``timeout`` counts in seconds."""

IDLE_GRACE_SECONDS = 1.0
"""Seconds for which a stopping worker still reads idle connections: it answers requests that are on their way, and a
reload stays short.
"""

JOIN_BYTES = 1 << 16
"""Bodies up to this size are joined to the head (a copy of 2 µs), to wake the client's process once, not twice."""


OWN_PACKAGES = ("gunicorn",)
"""Imported before the patch. Only its reloaders derive from a class that the patch replaces, from Thread."""

WAY_OUT = "`python -m dhaga -m gunicorn -k dhaga …` patches before its first line"


if _doors.program_of(sys.argv) == "gunicorn":  # the master, which has just read its settings
    _doors.restart_if_late(*OWN_PACKAGES, folder=Chdir.default)


class KeepAliveWait:
    """The wait of one connection for its next request, as a context manager entered for each."""

    __slots__ = ("client", "worker")

    def __init__(self, client: Any, worker: Worker) -> None:
        self.client: Any = client
        self.worker: Worker = worker

    def __enter__(self) -> None:
        worker = self.worker
        worker.idle_deadlines[self] = monotonic() + worker.cfg.keepalive

    def __exit__(self, *error: object) -> None:
        self.worker.idle_deadlines.pop(self, None)

    def end(self) -> None:
        """Make the connection read end-of-file after the data already received, which is still answered."""
        self.worker.idle_deadlines.pop(self, None)
        with contextlib.suppress(OSError):  # already disconnected
            plain.shutdown(self.client, SHUT_RD)  # plain, on the fd: SSLSocket.shutdown would go on unencrypted


class ResponseSocket:
    """The client's socket during one response: the head is sent together with the beginning of the body.

    That saves 9 µs of a request's 91. Interim responses (1xx) are sent at once, and so is the head before any other use
    of the socket.
    """

    __slots__ = ("client", "head", "head_seen")

    def __init__(self, client: Any) -> None:
        self.client: Any = client
        self.head_seen: bool = False
        self.head: bytes = b""

    def sendall(self, data: bytes) -> None:
        """Send, or keep the head until the next part. Parks: as a socket's ``sendall``."""
        if not self.head_seen and not data.startswith(b"HTTP/1.1 1"):
            self.head_seen, self.head = True, data
        elif self.head and len(data) <= JOIN_BYTES:
            head, self.head = self.head, b""
            self.client.sendall(head + data)
        else:
            self.flush()
            self.client.sendall(data)

    def send(self, data: bytes) -> int:
        """Send everything, as a blocking socket does, which WebSocket libraries rely on. Parks: as ``sendall``."""
        self.flush()
        self.client.sendall(data)
        return len(data)

    def flush(self) -> None:
        """Send a head that is still kept."""
        if self.head:
            head, self.head = self.head, b""
            self.client.sendall(head)

    def __getattr__(self, name: str) -> Any:
        self.flush()
        return getattr(self.client, name)


class BoundAddress:
    """The address of a worker's listener, which gunicorn reads per connection; valid after the listener is closed."""

    __slots__ = ("name",)

    def __init__(self, listener: Any) -> None:
        self.name: Any = listener.getsockname()

    def getsockname(self) -> Any:
        """Return the address."""
        return self.name


class Worker(AsyncWorker):  # type: ignore[misc]
    """A gunicorn process in which each connection is a dhaga. Source: gunicorn's ``Worker`` and ``AsyncWorker``."""

    alive: bool

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse settings that this worker cannot honour.

        Raises: RuntimeError, which gunicorn prints instead of starting.
        """
        if cfg.threads > 1:
            raise RuntimeError(
                f"threads = {cfg.threads} does not apply to a worker that serves each connection in a dhaga:\n"
                "remove it, and limit the number of connections with worker_connections"
            )
        if cfg.worker_connections < 1:
            raise RuntimeError(f"worker_connections must be one or more, not {cfg.worker_connections}")

    # ---- life

    def init_process(self) -> None:
        """Start the worker after the fork; no scheduler may exist before. Parks: for the whole life of the worker."""
        # The patch takes 0.2 s. A stop that comes meanwhile would call the master's handlers, and do nothing here.
        pthread_sigmask(SIG_BLOCK, self.SIGNALS)
        os.environ.update(self.cfg.env)  # as gunicorn does next; it may set DHAGA_PATCH
        error = _doors.patch_for_door(*OWN_PACKAGES)
        if error is not None and self.age == 1:  # once, not in each worker
            self.log.warning("%s", _doors.unpatched_line("gunicorn's worker", error, WAY_OUT))
        self.scheduler: Scheduler = current_scheduler()
        self.servers: list[TCPServer] = []
        self.keep_alive_waits: dict[Any, KeepAliveWait] = {}
        self.idle_deadlines: dict[KeepAliveWait, float] = {}
        add_log_handlers(self.log)
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the app. Raises: AppImportError for an ASGI app; gunicorn then exits."""
        super().load_wsgi()
        if is_asgi(self.wsgi):
            raise AppImportError(refusal(getattr(self.app, "app_uri", None) or repr(self.wsgi)))

    def run(self) -> None:
        """Serve until stopped, then wait for current requests. Parks: between heartbeats (``select``)."""
        cache_settings(self.cfg)
        patch_http2_selector()
        for listener in self.sockets:
            self.servers.append(self.serve(listener))
        if self.cfg.keepalive:
            spawn(self.end_idle, name="keep-alive", daemon=True)
        while self.alive:
            self.heartbeat()
        self.stop()

    def serve(self, listener: Any) -> TCPServer:
        """Accept from one of gunicorn's listeners; all share the permits of ``worker_connections``."""
        server = TCPServer(
            partial(self.handle, BoundAddress(listener)),
            listener.sock,
            ssl_context=ssl_context(self.cfg) if self.cfg.is_ssl else None,
            max_connections=self.worker_connections,
            handshake_timeout=self.cfg.timeout or None,
            name=f"worker {self.pid} at {listener}",
        )
        server.processes = 1 if self.cfg.reuse_port else self.cfg.workers
        if self.servers:
            server.permits = self.servers[0].permits
        return server.start()

    def heartbeat(self) -> None:
        """Notify the arbiter, and wait until the next heartbeat; a signal or ``wake_heartbeat`` ends the wait early."""
        self.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False
        if select([self.PIPE[0]], [], [], HEARTBEAT_SECONDS)[0]:
            os.read(self.PIPE[0], 4096)

    def wake_heartbeat(self) -> None:
        """End the wait of ``heartbeat`` through its self-pipe."""
        with contextlib.suppress(BlockingIOError):  # a full pipe also wakes it
            os.write(self.PIPE[1], b".")

    def stop_accepting(self) -> None:
        for server in self.servers:
            server.close()

    def stop(self) -> None:
        """Stop accepting and wait for the connections for ``graceful_timeout``, then cancel them."""
        self.stop_accepting()
        for listener in self.sockets:
            listener.close()
        stopping = [spawn(self.end, server, daemon=True) for server in self.servers]
        spawn(self.end_idle_at_stop, daemon=True)
        while any(end.is_alive() for end in stopping):
            self.heartbeat()

    def end(self, server: TCPServer) -> None:
        server.stop(self.cfg.graceful_timeout)
        self.wake_heartbeat()

    # ---- signals: a handler must not switch

    def init_signals(self) -> None:
        """Set gunicorn's handlers, SIGABRT's with the standard ``signal``: it must interrupt blocking code."""
        super().init_signals()
        original("signal", "signal")(SIGABRT, self.handle_abort)
        pthread_sigmask(SIG_UNBLOCK, self.SIGNALS)

    def handle_quit(self, number: int, frame: FrameType | None) -> None:
        """Exit now, in a dhaga: its SystemExit is raised in the main code at its park."""
        if self.servers:
            self.alive = False
            self.scheduler.spawn(super().handle_quit, number, frame, name="quick stop", daemon=True)
        else:
            super().handle_quit(number, frame)

    def handle_usr1(self, number: int, frame: FrameType | None) -> None:
        """Reopen the log files, in a dhaga: the signal may interrupt the writing of a line."""
        self.scheduler.spawn(super().handle_usr1, number, frame, name="log files", daemon=True)

    def handle_abort(self, number: int, frame: FrameType | None) -> None:
        """Abort the request that has blocked the worker for ``timeout``, and stop.

        The SystemExit raised at the interrupted line shows in the log where it blocked. Code of this package is not
        interrupted; gunicorn then kills the process.
        """
        if self.servers and (not isinstance(getcurrent(), Dhaga) or is_dhaga_frame(frame)):
            self.alive = False
            self.cfg.worker_abort(self)
        else:
            super().handle_abort(number, frame)

    # ---- connections

    @calls_out
    def handle(self, bound_address: BoundAddress, client: Any, address: Any) -> None:
        """Serve a connection to its end."""
        if self.cfg.is_ssl:
            client.suppress_ragged_eofs = self.cfg.suppress_ragged_eofs
        me = getcurrent()
        self.keep_alive_waits[me] = KeepAliveWait(client, self)
        try:
            super().handle(bound_address, client, address)
        finally:
            del self.keep_alive_waits[me]

    def timeout_ctx(self) -> KeepAliveWait:
        """Return the context manager around the wait of the caller's connection for a request."""
        return self.keep_alive_waits[getcurrent()]

    def end_idle(self) -> None:
        """End idle connections after ``keepalive`` seconds; all have the same timeout, so the oldest is the next."""
        while True:
            now = monotonic()
            while self.idle_deadlines and (oldest := next(iter(self.idle_deadlines.items())))[1] <= now:
                oldest[0].end()
            sleep(next(iter(self.idle_deadlines.values()), now + self.cfg.keepalive) - now)

    def end_idle_at_stop(self) -> None:
        """End idle connections every ``IDLE_GRACE_SECONDS``, once the worker stops."""
        while True:
            sleep(IDLE_GRACE_SECONDS)
            for wait in list(self.idle_deadlines):
                wait.end()

    @calls_out
    def handle_request(self, name: Any, request: Any, client: Any, address: Any) -> Any:
        """Answer a request. Raises: StopIteration if the connection ends with it."""
        yield_if_due()  # with a client that pipelines endlessly, gunicorn's parser never waits
        begin_new_work()
        if self.nr + 1 >= self.max_requests:
            self.stop_accepting()
        response = ResponseSocket(client)
        before = copy_context()
        try:
            keep_alive = super().handle_request(name, request, response, address)
        except StopIteration:
            response.flush()
            if not self.alive:  # perhaps stopped by this request, the last of max_requests
                self.wake_heartbeat()
            raise
        getcurrent().gr_context = before  # context variables set in a request must not reach the next
        response.flush()
        return keep_alive

    def handle_error(self, request: Any, client: Any, address: Any, error: BaseException) -> None:
        """Answer and log an error; a cancel comes from a stop and ends the connection."""
        if not isinstance(error, Cancelled):
            super().handle_error(request, client, address, error)
        elif request is not None:
            self.log.warning("Cut off by the stop: %s %s", request.method, request.uri)


class WorkerSelector(selectors.SelectSelector):
    """The standard selector, whose ``select`` parks."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for the registered fds. Parks: until one is ready (``poll``)."""
        waiting = poll()
        keys = list(self.get_map().values())
        for key in keys:
            waiting.register(key.fd, POLLIN * bool(key.events & EVENT_READ) | POLLOUT * bool(key.events & EVENT_WRITE))
        ready = dict(waiting.poll(None if timeout is None else timeout * 1000))
        return [(key, key.events) for key in keys if key.fd in ready]


def patch_http2_selector() -> None:
    """Make gunicorn's HTTP/2 wait for slow readers with a selector that parks."""
    with contextlib.suppress(ImportError):  # HTTP/2 came with gunicorn 25
        from gunicorn.http2 import connection

        connection.selectors = SimpleNamespace(DefaultSelector=WorkerSelector, EVENT_READ=EVENT_READ)


def is_dhaga_frame(frame: FrameType | None) -> bool:
    return frame is None or frame.f_globals.get("__name__", "").startswith(PACKAGE_PREFIX)


def add_log_handlers(log: Any) -> None:
    """Send Dhaga's log records to gunicorn's error log, unless the program has configured a handler."""
    dhaga_logger = logging.getLogger(PACKAGE_PREFIX[:-1])
    if not dhaga_logger.hasHandlers():
        for handler in log.error_log.handlers:
            dhaga_logger.addHandler(handler)


def cache_settings(settings: Any) -> None:
    """Also store gunicorn's settings as plain attributes: a request reads 21, and each lookup would take 0.2 µs."""
    vars(settings).update({name: setting.get() for name, setting in settings.settings.items()})
