"""gunicorn's worker on dhagas: ``gunicorn -k dhaga.integrations.gunicorn.Worker``, or ``-k egg:dhaga#dhaga``.

``-k dhaga`` works only under ``python -m dhaga -m gunicorn``, because gunicorn looks up a bare name in its own table,
and only a patched program adds this name (``_short_names``). A worker patches itself before it loads the app, unless
``DHAGA_PATCH=0``. The master is patched only under ``python -m dhaga``, or after a restart with an early patch
(``monkey/_early.py``). With ``preload_app``, an unpatched master imports the app before the worker's patch. The patch
then replaces the names that the app has already bound, where possible. Each connection has a dhaga, so one process
serves up to ``worker_connections`` slow requests at once. The class ``AsyncWorker`` of gunicorn reads and answers
requests, so gunicorn's settings, limits, hooks and access log apply. This module does the rest: accepting, waiting for
the next request, heartbeats, signals and stopping.

The main code only sends heartbeats. It parks on gunicorn's self-pipe ``PIPE``, to which gunicorn's signal handlers and
``wake_heartbeat`` write. (``_kernel.run.loop.WakeupPipe`` cannot replace the pipe, because gunicorn creates the pipe
and the handlers.) A signal handler must not switch to another dhaga, so a handler that logs or exits spawns a dhaga for
this work.

A connection is idle while ``timeout_ctx`` is entered. ``idle_deadlines`` then contains the connection's wait. The waits
are in the order of their deadlines, because all connections have the same keepalive. To end a connection, the worker
shuts down the socket's receiving side: requests already received are still answered. A stopping worker closes the
listeners, ends idle connections after ``IDLE_GRACE_SECONDS``, and cancels the rest after ``graceful_timeout``. As with
gunicorn's own asynchronous workers, there is no time limit for a body that stalls or trickles in, or for a client that
reads nothing. Against such clients, gunicorn recommends a proxy; ``python -m dhaga serve`` has ``http.limits``.

Rejected: the parser of ``dhaga.http``, which refuses a few more requests. Only gunicorn's own parser applies gunicorn's
settings, the PROXY protocol and HTTP/2. Hooks and log formats read that parser's request objects.
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
from .._kernel.run.new_work import begin_new_work, end_work
from .._kernel.run.scheduler import Scheduler
from .._kernel.run.turn_budget import yield_if_due
from .._kernel.run.uncaught import PACKAGE_PREFIX
from ..monkey import _doors, original
from ..select import POLLIN, POLLOUT, poll, select
from ..servers import TCPServer
from ..servers._asgi import is_asgi, refusal
from ._gunicorn_response import ResponseSocket

try:
    from gunicorn.config import Chdir
    from gunicorn.errors import AppImportError
    from gunicorn.sock import ssl_context
    from gunicorn.workers.base_async import AsyncWorker
except ModuleNotFoundError as error:
    raise missing_extra("dhaga.integrations.gunicorn", "gunicorn", error) from None

HEARTBEAT_SECONDS = 1.0
"""Number of seconds between two heartbeats, as in gunicorn's own workers, because ``timeout`` is in whole seconds."""

IDLE_GRACE_SECONDS = 1.0
"""Number of seconds for which a stopping worker still reads idle connections, to answer requests that are on their way.
A longer time would delay a reload.
"""

OWN_PACKAGES = ("gunicorn",)
"""Packages that may be imported before the patch. Of gunicorn's classes, only its reloaders derive from a class that
the patch replaces.
"""

WAY_OUT = "`python -m dhaga -m gunicorn -k dhaga …` patches before its first line"


if _doors.program_of(sys.argv) == "gunicorn":  # the master, which has just read its settings
    _doors.restart_if_late(*OWN_PACKAGES, folder=Chdir.default)


class KeepAliveWait:
    """A context manager around each wait of one connection for its next request."""

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
        """Make the connection read end-of-file after the data already received. Requests in that data are answered."""
        self.worker.idle_deadlines.pop(self, None)
        with contextlib.suppress(OSError):  # the client is already disconnected
            plain.shutdown(self.client, SHUT_RD)  # SSLSocket.shutdown would continue the connection unencrypted


class BoundAddress:
    """The address of a worker's listener. gunicorn reads the address for each connection, even if the listener is
    closed.
    """

    __slots__ = ("name",)

    def __init__(self, listener: Any) -> None:
        self.name: Any = listener.getsockname()

    def getsockname(self) -> Any:
        """Return the address."""
        return self.name


class Worker(AsyncWorker):  # type: ignore[misc]
    """A gunicorn process that serves each connection in a dhaga. Source: gunicorn's ``Worker`` and ``AsyncWorker``."""

    alive: bool

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse settings that this worker cannot apply.

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
        """Start the worker after the fork. No scheduler may exist yet. Parks: until the worker ends."""
        # The patch takes 0.2 s. A stop signal during the patch would call the master's handlers, and have no effect.
        pthread_sigmask(SIG_BLOCK, self.SIGNALS)
        os.environ.update(self.cfg.env)  # gunicorn sets these variables later; one may be DHAGA_PATCH
        error = _doors.patch_for_door(*OWN_PACKAGES)
        if error is not None and self.age == 1:  # only the first worker warns
            self.log.warning("%s", _doors.unpatched_line("gunicorn's worker", error, WAY_OUT))
        self.scheduler: Scheduler = current_scheduler()
        self.servers: list[TCPServer] = []
        self.keep_alive_waits: dict[Any, KeepAliveWait] = {}
        self.idle_deadlines: dict[KeepAliveWait, float] = {}
        add_log_handlers(self.log)
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the app. Raises: AppImportError for an ASGI app. gunicorn then exits."""
        super().load_wsgi()
        if is_asgi(self.wsgi):
            raise AppImportError(refusal(getattr(self.app, "app_uri", None) or repr(self.wsgi)))

    def run(self) -> None:
        """Serve connections until stopped, then wait for current requests. Parks: between heartbeats (``select``)."""
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
        """Accept connections from one of gunicorn's listeners. All listeners share ``worker_connections`` permits."""
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
        """Notify the arbiter, and wait for the next heartbeat. A signal or ``wake_heartbeat`` ends the wait early."""
        self.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False
        if select([self.PIPE[0]], [], [], HEARTBEAT_SECONDS)[0]:
            os.read(self.PIPE[0], 4096)

    def wake_heartbeat(self) -> None:
        """Write to the self-pipe, which ends the wait of ``heartbeat``."""
        with contextlib.suppress(BlockingIOError):  # a full pipe also ends the wait
            os.write(self.PIPE[1], b".")

    def stop_accepting(self) -> None:
        for server in self.servers:
            server.close()

    def stop(self) -> None:
        """Stop accepting, wait up to ``graceful_timeout`` for the connections to end, then cancel them."""
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

    # ---- signals: a handler must not switch to another dhaga

    def init_signals(self) -> None:
        """Set gunicorn's handlers. The standard ``signal`` sets the handler of SIGABRT, because this handler must
        interrupt blocking code.
        """
        super().init_signals()
        original("signal", "signal")(SIGABRT, self.handle_abort)
        pthread_sigmask(SIG_UNBLOCK, self.SIGNALS)

    def handle_quit(self, number: int, frame: FrameType | None) -> None:
        """Exit at once, from a dhaga. The dhaga's SystemExit is raised in the parked main code."""
        if self.servers:
            self.alive = False
            self.scheduler.spawn(super().handle_quit, number, frame, name="quick stop", daemon=True)
        else:
            super().handle_quit(number, frame)

    def handle_usr1(self, number: int, frame: FrameType | None) -> None:
        """Reopen the log files, in a dhaga, because the signal may interrupt the writing of a line."""
        self.scheduler.spawn(super().handle_usr1, number, frame, name="log files", daemon=True)

    def handle_abort(self, number: int, frame: FrameType | None) -> None:
        """Abort the request that has blocked the worker for ``timeout``, and stop the worker.

        A SystemExit is raised at the interrupted line, so that the log shows where the request blocked. Code of Dhaga
        is not interrupted; gunicorn then kills the process.
        """
        if self.servers and (not isinstance(getcurrent(), Dhaga) or is_dhaga_frame(frame)):
            self.alive = False
            self.cfg.worker_abort(self)
        else:
            super().handle_abort(number, frame)

    # ---- connections

    @calls_out
    def handle(self, bound_address: BoundAddress, client: Any, address: Any) -> None:
        """Serve a connection until it ends."""
        if self.cfg.is_ssl:
            client.suppress_ragged_eofs = self.cfg.suppress_ragged_eofs
        me = getcurrent()
        self.keep_alive_waits[me] = KeepAliveWait(client, self)
        try:
            super().handle(bound_address, client, address)
        finally:
            del self.keep_alive_waits[me]

    def timeout_ctx(self) -> KeepAliveWait:
        """Return the ``KeepAliveWait`` of the caller's connection. gunicorn enters it to wait for a request."""
        return self.keep_alive_waits[getcurrent()]

    def end_idle(self) -> None:
        """End idle connections after ``keepalive`` seconds. All have the same timeout, so the oldest ends first."""
        while True:
            now = monotonic()
            while self.idle_deadlines and (oldest := next(iter(self.idle_deadlines.items())))[1] <= now:
                oldest[0].end()
            sleep(next(iter(self.idle_deadlines.values()), now + self.cfg.keepalive) - now)

    def end_idle_at_stop(self) -> None:
        """End idle connections every ``IDLE_GRACE_SECONDS`` while the worker stops."""
        while True:
            sleep(IDLE_GRACE_SECONDS)
            for wait in list(self.idle_deadlines):
                wait.end()

    @calls_out
    def handle_request(self, name: Any, request: Any, client: Any, address: Any) -> Any:
        """Answer a request. Raises: StopIteration if the connection ends with this request."""
        yield_if_due()  # needed because gunicorn's parser never waits for a client that pipelines endlessly
        begin_new_work()
        if self.nr + 1 >= self.max_requests:
            self.stop_accepting()
        response = ResponseSocket(client)
        before = copy_context()
        try:
            keep_alive = super().handle_request(name, request, response, address)
            if response.cut_off:  # the client would read the next response as the rest of this response
                raise StopIteration
        except StopIteration:
            response.flush()
            if not self.alive:  # perhaps because this request was the last of max_requests
                self.wake_heartbeat()
            raise
        finally:
            end_work()
        getcurrent().gr_context = before  # context variables set in a request must not reach the next request
        response.flush()
        return keep_alive

    def handle_error(self, request: Any, client: Any, address: Any, error: BaseException) -> None:
        """Answer and log an error. After a cancel, which a stop causes, only log the request that is cut off."""
        if not isinstance(error, Cancelled):
            super().handle_error(request, client, address, error)
        elif request is not None:
            self.log.warning("Cut off by the stop: %s %s", request.method, request.uri)


class WorkerSelector(selectors.SelectSelector):
    """The standard selector, but with a ``select`` that parks."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for the registered fds. Parks: until an fd is ready (``poll``)."""
        waiting = poll()
        keys = list(self.get_map().values())
        for key in keys:
            waiting.register(key.fd, POLLIN * bool(key.events & EVENT_READ) | POLLOUT * bool(key.events & EVENT_WRITE))
        ready = dict(waiting.poll(None if timeout is None else timeout * 1000))
        return [(key, key.events) for key in keys if key.fd in ready]


def patch_http2_selector() -> None:
    """Make gunicorn's HTTP/2 code wait for slow readers with a selector that parks."""
    with contextlib.suppress(ImportError):  # HTTP/2 is new in gunicorn 25
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
    """Also store gunicorn's settings as plain attributes. A request reads 21 of them; each lookup would take 0.2 µs."""
    vars(settings).update({name: setting.get() for name, setting in settings.settings.items()})
