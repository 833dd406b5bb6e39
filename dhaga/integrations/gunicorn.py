"""gunicorn's worker on dhagas: ``gunicorn -k dhaga.integrations.gunicorn.Worker``, or ``-k egg:dhaga#dhaga``.

Each connection is a dhaga, so that one process serves as many slow requests at once as ``worker_connections`` says.
Requests are read and answered by gunicorn's own ``AsyncWorker``: its settings, limits, hooks and access log all count.
What lives here is the life around them: connections, their wait for the next request, heartbeat, signals, the stop.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE
from socket import SHUT_RD
from time import monotonic
from types import FrameType, SimpleNamespace
from typing import Any

from greenlet import getcurrent
from gunicorn.sock import ssl_context
from gunicorn.workers.base_async import AsyncWorker

from ..kernel.api import sleep, spawn
from ..kernel.callers import scheduler_here
from ..kernel.errors import Cancelled
from ..kernel.microthread import OWN, Dhaga
from ..patience import plain
from ..select import POLLIN, POLLOUT, poll, select
from ..servers import TCPServer

HEARTBEAT = 1.0
"""Seconds between two signs of life: gunicorn's own workers give one a second, and ``timeout`` counts in seconds."""

LAST_CALL = 1.0
"""Seconds that a worker which stops still listens to silent connections, at most: what is on its way is answered, and
no reload takes long."""

SHORT = 1 << 16
"""Bytes of a body up to which the head is copied before it (2 µs), to wake the client's process once, not twice."""


class Silence:
    """The time in which a connection waits for its next request; entered anew for each."""

    __slots__ = ("client", "worker")

    def __init__(self, client: Any, worker: Worker) -> None:
        self.client = client
        self.worker = worker

    def __enter__(self) -> None:
        worker = self.worker
        worker.silent[self] = monotonic() + worker.cfg.keepalive

    def __exit__(self, *error: object) -> None:
        self.worker.silent.pop(self, None)

    def end(self) -> None:
        """Have the connection read its end: after what has come already, which is thus still answered."""
        self.worker.silent.pop(self, None)
        with contextlib.suppress(OSError):  # it has ended already
            plain.shutdown(self.client, SHUT_RD)  # of the fd: TLS would go on in clear


class Answer:
    """The client's socket as one answer is written to it: the head goes out with the beginning of the body.

    Against two calls that is 9 µs less of a request's 91. Interim answers (1xx) go out at once; and so does the head
    before whatever else is done with the socket.
    """

    __slots__ = ("begun", "client", "head")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.begun = False
        self.head = b""

    def sendall(self, data: bytes) -> None:
        """Send, or keep what will be sent with the next part. Parks: as a socket's ``sendall``."""
        if not self.begun and not data.startswith(b"HTTP/1.1 1"):
            self.begun, self.head = True, data
        elif self.head and len(data) <= SHORT:
            head, self.head = self.head, b""
            self.client.sendall(head + data)
        else:
            self.flush()
            self.client.sendall(data)

    def flush(self) -> None:
        """Send a head to which nothing has come."""
        if self.head:
            head, self.head = self.head, b""
            self.client.sendall(head)

    def __getattr__(self, name: str) -> Any:
        self.flush()
        return getattr(self.client, name)


class Place:
    """Where a worker listens, as gunicorn asks for it per connection: the name, also of what is closed meanwhile."""

    __slots__ = ("name",)

    def __init__(self, listener: Any) -> None:
        self.name = listener.getsockname()

    def getsockname(self) -> Any:
        """Return the address."""
        return self.name


class Worker(AsyncWorker):  # type: ignore[misc]
    """A process of gunicorn in which each connection is a dhaga. Source: gunicorn's ``Worker`` and ``AsyncWorker``."""

    alive: bool

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        """Refuse what this worker cannot obey. Raises: RuntimeError, which gunicorn prints, and does not start."""
        if cfg.threads > 1:
            raise RuntimeError(
                f"threads = {cfg.threads} makes no sense with a worker that serves each connection in a dhaga: leave "
                "it out; how many there may be at once is for worker_connections to say"
            )
        if cfg.worker_connections < 1:
            raise RuntimeError(f"worker_connections must be one or more, not {cfg.worker_connections}")

    # ---- life

    def init_process(self) -> None:
        """Begin, after the fork: before it there must be no scheduler. Parks: for the whole life of the worker."""
        self.scheduler = scheduler_here()
        self.servers: list[TCPServer] = []
        self.silences: dict[Any, Silence] = {}
        self.silent: dict[Silence, float] = {}
        log_to(self.log)
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop, then let finish what is under way. Parks: between heartbeats (``select``)."""
        flatten(self.cfg)
        let_http2_park()
        for listener in self.sockets:
            self.servers.append(self.serve(listener))
        if self.cfg.keepalive:
            spawn(self.end_silences, name="keep-alive", daemon=True)
        while self.alive:
            self.beat()
        self.stop()

    def serve(self, listener: Any) -> TCPServer:
        """Accept from one of the sockets that gunicorn has bound; all share the places for ``worker_connections``."""
        server = TCPServer(
            partial(self.handle, Place(listener)),
            listener.sock,
            ssl_context=ssl_context(self.cfg) if self.cfg.is_ssl else None,
            max_connections=self.worker_connections,
            handshake_timeout=self.cfg.timeout or None,
            name=f"worker {self.pid} at {listener}",
        )
        if self.servers:
            server.permits = self.servers[0].permits
        return server.start()

    def beat(self) -> None:
        """Give a sign of life, and wait until the next is due; a signal, or ``ring``, ends that early."""
        self.notify()
        if self.alive and self.ppid != os.getppid():
            self.log.info("Parent changed, shutting down: %s", self)
            self.alive = False
        if select([self.PIPE[0]], [], [], HEARTBEAT)[0]:
            os.read(self.PIPE[0], 4096)

    def ring(self) -> None:
        """End the wait of ``beat``."""
        with contextlib.suppress(BlockingIOError):  # a full pipe rings as well
            os.write(self.PIPE[1], b".")

    def accept_no_more(self) -> None:
        for server in self.servers:
            server.close()

    def stop(self) -> None:
        """Accept no more, and wait for the connections, for ``graceful_timeout``; then cancel them."""
        self.accept_no_more()
        for listener in self.sockets:
            listener.close()
        ends = [spawn(self.end, server, daemon=True) for server in self.servers]
        spawn(self.end_all_silences, daemon=True)
        while any(end.is_alive() for end in ends):
            self.beat()

    def end(self, server: TCPServer) -> None:
        server.stop(self.cfg.graceful_timeout)
        self.ring()

    # ---- signals: no handler switches

    def handle_quit(self, number: int, frame: FrameType | None) -> None:
        """End now: in a dhaga, whose SystemExit reaches the main code where that waits."""
        if self.servers:
            self.alive = False
            self.scheduler.spawn(super().handle_quit, number, frame, name="quick stop", daemon=True)
        else:
            super().handle_quit(number, frame)

    def handle_usr1(self, number: int, frame: FrameType | None) -> None:
        """Open the log files anew: in a dhaga, as the handler may strike in the middle of a line."""
        self.scheduler.spawn(super().handle_usr1, number, frame, name="log files", daemon=True)

    def handle_abort(self, number: int, frame: FrameType | None) -> None:
        """Strike the request that has kept all others waiting for ``timeout``, and stop.

        Its SystemExit shows in the log where it stood. Code of this package is not struck; gunicorn kills then.
        """
        if self.servers and (not isinstance(getcurrent(), Dhaga) or is_ours(frame)):
            self.alive = False
            self.cfg.worker_abort(self)
        else:
            super().handle_abort(number, frame)

    # ---- connections

    def handle(self, place: Place, client: Any, address: Any) -> None:
        """Serve a connection to its end."""
        if self.cfg.is_ssl:
            client.suppress_ragged_eofs = self.cfg.suppress_ragged_eofs
        me = getcurrent()
        self.silences[me] = Silence(client, self)
        try:
            super().handle(place, client, address)
        finally:
            del self.silences[me]

    def timeout_ctx(self) -> Silence:
        """Bound the wait of the caller's connection for a request."""
        return self.silences[getcurrent()]

    def end_silences(self) -> None:
        """End each silence after ``keepalive`` seconds; all have as many, so that the oldest is the next."""
        while True:
            now = monotonic()
            while self.silent and (oldest := next(iter(self.silent.items())))[1] <= now:
                oldest[0].end()
            sleep(next(iter(self.silent.values()), now + self.cfg.keepalive) - now)

    def end_all_silences(self) -> None:
        """End those that have lasted for a while after the stop began."""
        while True:
            sleep(LAST_CALL)
            for silence in list(self.silent):
                silence.end()

    def handle_request(self, name: Any, request: Any, client: Any, address: Any) -> Any:
        """Answer a request. Raises: StopIteration if the connection is to end with it."""
        if self.nr + 1 >= self.max_requests:
            self.accept_no_more()
        answer = Answer(client)
        try:
            goes_on = super().handle_request(name, request, answer, address)
        except StopIteration:
            answer.flush()
            if not self.alive:  # it may have been the last of max_requests
                self.ring()
            raise
        answer.flush()
        return goes_on

    def handle_error(self, request: Any, client: Any, address: Any, error: BaseException) -> None:
        """Answer and log what went wrong; a cancel belongs to a stop, and the connection ends with it."""
        if not isinstance(error, Cancelled):
            super().handle_error(request, client, address, error)
        elif request is not None:
            self.log.warning("Cut off by the stop: %s %s", request.method, request.uri)


class Selector(selectors.SelectSelector):
    """The standard selector, whose ``select`` parks."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for what is registered. Parks: until something is ready (``poll``)."""
        waiting = poll()
        keys = list(self.get_map().values())
        for key in keys:
            waiting.register(key.fd, POLLIN * bool(key.events & EVENT_READ) | POLLOUT * bool(key.events & EVENT_WRITE))
        ready = dict(waiting.poll(None if timeout is None else timeout * 1000))
        return [(key, key.events) for key in keys if key.fd in ready]


def let_http2_park() -> None:
    """Have gunicorn's HTTP/2, where it waits for a client to take more, ask a selector that holds up nobody else."""
    with contextlib.suppress(ImportError):  # gunicorn has had none before 25
        from gunicorn.http2 import connection

        connection.selectors = SimpleNamespace(DefaultSelector=Selector, EVENT_READ=EVENT_READ)


def is_ours(frame: FrameType | None) -> bool:
    return frame is None or frame.f_globals.get("__name__", "").startswith(OWN)


def log_to(log: Any) -> None:
    """Have what dhagas log go where gunicorn's errors go, unless the program has said where."""
    ours = logging.getLogger(OWN[:-1])
    if not ours.hasHandlers():
        for handler in log.error_log.handlers:
            ours.addHandler(handler)


def flatten(settings: Any) -> None:
    """Keep gunicorn's settings as plain attributes, too: a request looks at 21, each of which costs 0.2 µs else."""
    vars(settings).update({name: setting.get() for name, setting in settings.settings.items()})
