"""One connection of the WSGI server: its dhaga answers one request after the other until the connection ends.

States: idle (no byte of the next request was received), reading a head, answering, closing (no request follows), ended.
A graceful stop closes idle connections, and other connections end with their responses. ``upgraded``: the app has taken
over the socket.

``idle_timer`` limits each wait for the next request, for the rest of a head and for a piece of a body. ``send_timer``
limits each wait for the client to read a piece of a response. Both are off while the app works. Waits for the body are
also limited if another dhaga of the same OS thread reads the body. Before a connection is reused, the unread rest of a
body is read and dropped, up to ``DRAIN_BYTES``. If a client still sends when the connection ends, the server reads for
``LINGER_SECONDS`` before it closes the socket. An immediate close would send a RST, which discards the response. The
module ``timed_transfers`` receives bodies and sends bytes, ``request_parser`` parses requests, and ``response`` makes
the bytes of the response.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from io import BufferedReader, BytesIO
from typing import TYPE_CHECKING, Any

from ..._kernel.errors import Expired
from ..._kernel.fast.compiled import compiled
from ..._kernel.platform.system import system
from ..._kernel.run.call_outs import calls_out
from ..._kernel.run.new_work import begin_new_work, end_work
from ..._kernel.run.turn_budget import yield_if_due
from ..._kernel.timeout import Timeout
from ...servers._tcp import send_close_notify
from ...socket import SHUT_WR, socket
from ..limits import Refusal
from .access_log import unparsed
from .app_socket import AppSocket, end_receiving, has_closed
from .request_body import body_reader
from .response import CLOSED_SINK, Response
from .timed_transfers import LINGER_SECONDS, RECEIVE_BYTES, Transfers

if TYPE_CHECKING:
    from ..._sync.semaphore import Semaphore
    from ..wsgi import Server

logger = logging.getLogger("dhaga")

IDLE_GRACE_SECONDS = 1.0
"""Seconds that an idle connection stays open for another request when the server stops.

The next request of a busy client may be on its way. Without this time, 10 reloads with 6 busy clients lost 26 requests.
"""

STRAY_BYTES = b"", b"\r", b"\r\n"
"""Data to ignore before a request: an empty line, which old clients send after a body (RFC 9112, section 2.2)."""

LEFT_UPGRADED = ConnectionError, StopIteration
"""Errors that apps for werkzeug and gunicorn raise to end a request whose connection they have taken over."""

UNAVAILABLE = "503 Service Unavailable"

NO_BOUND = nullcontext()
"""The context manager of a request without a timeout. Entering it takes 50 ns."""


class ServerConnection(Transfers):
    """A connection to one client. It serves requests until either side closes the connection.

    ``Server`` creates this object in the connection's dhaga.
    """

    __slots__ = (
        "base_environ", "body", "idle", "peer", "turns", "upgraded",
    )  # fmt: skip

    def __init__(self, server: Server, sock: socket, peer: Any, base_environ: dict[str, Any]) -> None:
        super().__init__(server, sock)
        self.peer = (peer[0], str(peer[1])) if isinstance(peer, tuple) else ("", "")
        self.base_environ = base_environ
        self.idle = False  # no byte of the next request was received
        self.upgraded = False  # the app has taken over the socket
        self.body: BufferedReader | None = None
        self.turns: Semaphore | None = None  # set while this connection holds a permit

    def __repr__(self) -> str:
        return f"<ServerConnection with {self.peer[0] or 'a local client'}, {'idle' if self.idle else 'busy'}>"

    @calls_out
    def serve_requests(self) -> None:
        """Answer requests until the connection ends. Parks: while the client neither sends nor reads."""
        context = copy_context()
        me = self.me
        self.server.http_connections[me] = self
        try:
            while self.serve_next():
                me.gr_context = context.copy()  # the next request must not see context variables of this request
            self.close()
        except OSError as error:
            self.log_client_gone(error)
        finally:
            del self.server.http_connections[me]
            self.idle_timer.close()
            self.send_timer.close()
            self.parser.close()

    @calls_out
    def serve_next(self) -> bool:
        """Serve one request. Returns: whether another request may follow."""
        environ = self.next_request()
        if environ is None:
            return False
        begin_new_work()
        try:
            if self.server.turns is None:
                self.answer(environ)
            else:
                self.answer_in_turn(self.server.turns, environ)
        finally:
            end_work()
        return not self.closing

    # ---- requests

    def next_request(self) -> dict[str, Any] | None:
        """Return the environ of the next request. Returns: None after the last request."""
        parser = self.parser
        limits = self.server.limits
        try:
            if parser.buffer in STRAY_BYTES:
                self.idle = True
                self.idle_timer.arm(IDLE_GRACE_SECONDS if self.server.stopping else limits.idle_timeout)
                self.receive_beginning()
                self.idle_timer.deadline = math.inf
                self.idle = False
            else:
                yield_if_due()  # a client that pipelines endlessly would otherwise keep this dhaga running
            received = parser.buffer
            environ = parser.head(self.base_environ) or self.rest_of_head()
        except TimeoutError:
            if not self.idle:
                slow = Refusal("408 Request Timeout", "the head came too slowly")
                self.refuse_request(slow, unparsed(parser.buffer, self.peer))
            parser.buffer = b"" if self.idle else parser.buffer
            return None
        except Refusal as refusal:
            self.refuse_request(refusal, unparsed(refusal.received or received, self.peer))
            return None
        if environ is not None:
            self.fill_environ(environ)
        return environ

    def receive_beginning(self) -> None:
        """Receive the first bytes of a request into ``parser.buffer``: b"" if the client disconnects."""
        parser = self.parser
        while parser.buffer in STRAY_BYTES:
            data = self.sock.recv(RECEIVE_BYTES)
            parser.buffer = parser.buffer + data if data else b""
            if not data:
                break

    def rest_of_head(self) -> dict[str, Any] | None:
        """Receive until the head is whole. Returns: the environ, or None if the client has closed without a request.

        Raises: OSError, Refusal.
        """
        parser = self.parser
        self.idle_timer.arm(self.server.limits.header_timeout)
        try:
            while parser.buffer:
                data = self.sock.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("the client disconnected in the middle of a head")
                received = parser.buffer = parser.buffer + data
                environ = parser.head(self.base_environ)
                if environ is not None:
                    return environ
        except Refusal as refusal:
            refusal.received = received
            raise
        finally:
            self.idle_timer.deadline = math.inf
        return None

    @compiled  # in C only for a request without a body
    def fill_environ(self, environ: dict[str, Any]) -> None:
        """Add the connection's keys to an environ: the peer's address, the body, and ``dhaga.disconnected``."""
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.peer
        environ["dhaga.disconnected"] = self.disconnected
        parser = self.parser
        self.body_wait = 0.0
        if parser.complete:
            environ["wsgi.input"] = BytesIO()
        else:
            parser.pieces = deque()  # the app may have left pieces of the previous body unread
            environ["wsgi.input"] = self.body = body_reader(parser.pieces, self.more_body)

    # ---- answers

    @calls_out
    def answer(self, environ: dict[str, Any]) -> None:
        """Call the app and send its result. Raises: OSError if the client has disconnected."""
        response = self.response = Response(self, environ["REQUEST_METHOD"], environ["SERVER_PROTOCOL"])
        result: Any = None
        environ["dhaga.upgrade"] = partial(self.upgrade, response)
        environ["werkzeug.socket"] = environ["gunicorn.socket"] = AppSocket(self, response)
        try:
            seconds = self.server.limits.request_timeout
            with NO_BOUND if seconds is None else Timeout(seconds, Refusal(UNAVAILABLE, f"it took over {seconds:g} s")):
                result = self.server.app(environ, response.start)
                if not self.upgraded:
                    response.send_all(result)
        except BaseException as error:
            if not self.server.answers_error(error):
                self.server.report_exit(environ, error)
                raise
            self.fail(error, environ, response)
        finally:
            if result.__class__ is not list:
                self.close_result(result)
            self.response = None
            response.sink = CLOSED_SINK
            if self.body is not None:
                self.close_body(self.body)
        log = self.server.access_log
        if log is not None and response.status:
            log.write_entry(environ, response.status, response.size)
        if not self.parser.complete and not self.closing:
            self.end_turn()  # the app has ended: the next request need not wait for this client
            if not self.drain_body():
                self.closing = True

    def close_result(self, result: Any) -> None:
        try:
            if hasattr(result, "close"):
                result.close()
        except BaseException as error:
            if not self.server.answers_error(error):
                raise
            logger.exception("close() of the app's result failed")
            self.closing = True

    def close_body(self, body: BufferedReader) -> None:
        """Close the file of a body, so that no dhaga of the app reads the next request's body from this file."""
        self.body = None
        try:
            if self.receiving:  # a read may be in another OS thread, and close() would wait for its end
                raise RuntimeError
            body.close()
        except RuntimeError:  # another dhaga is inside a read of the io.BufferedReader
            logger.error("the app returned while another dhaga still reads the request's body: the connection ends")
            self.closing = self.client_gone = True

    def fail(self, error: BaseException, environ: dict[str, Any], response: Response) -> None:
        """Send the answer for an app that failed. If the response has begun, only end the connection."""
        self.closing = True
        if self.client_gone or (self.upgraded and isinstance(error, LEFT_UPGRADED)):
            logger.debug("the client of %s has disconnected: %s", environ["REQUEST_URI"], error)
            return
        refusal = error if isinstance(error, Refusal) else None
        if refusal is not None and isinstance(error.__cause__, Expired):
            logger.warning("%s: %s", environ["REQUEST_URI"], error, exc_info=error.__cause__)
        if refusal is None and self.server.report_failure(environ, error):
            return
        if not response.sent and not self.upgraded:
            refusal = refusal or Refusal("500 Internal Server Error", "the app failed")
            logger.debug("%r: %s: %s", self, refusal.status, refusal)
            self.refuse(refusal, response)

    def refuse(self, refusal: Refusal, response: Response) -> None:
        """Send a refusal as the response. The connection then ends."""
        self.closing = True
        response.status, response.sent = "", False
        text = self.server.refusal_text(refusal).encode()
        response.start(refusal.status, [("Content-Type", "text/plain; charset=utf-8")])
        response.length = response.remaining = None
        response.send_whole(text)

    def refuse_request(self, refusal: Refusal, environ: dict[str, Any]) -> None:
        """Refuse a request that the app does not get, and log the refusal.

        The level is INFO, because usually the client is the cause. ``environ``: the keys that the access log needs.
        """
        client = self.peer[0] or "a local client"
        logger.info("%s refused a request of %s: %s: %s", self.server.name, client, refusal.status, refusal)
        response = Response(self, "", "HTTP/1.1")
        self.refuse(refusal, response)
        log = self.server.access_log
        if log is not None:
            log.write_entry(environ, response.status, response.size)

    @calls_out
    def answer_in_turn(self, turns: Semaphore, environ: dict[str, Any]) -> None:
        """Wait until the app handles fewer than ``concurrency`` requests, then answer a request.

        Parks: while the app handles ``concurrency`` requests (``semaphore.acquire``), at most ``queue_timeout``
        seconds.
        """
        if not turns.acquire(blocking=False):
            if not turns.acquire(timeout=self.server.limits.queue_timeout):
                late = Refusal(UNAVAILABLE, "the request waited too long for its turn in the app")
                self.refuse_request(late, environ)
                return
            self.closing = self.client_gone = self.disconnected()  # a client that has disconnected reads no answer
        self.turns = turns
        try:
            if not self.closing:
                self.answer(environ)
        finally:
            self.end_turn()

    def end_turn(self) -> None:
        """Release this request's permit, when the app has ended or takes over the connection."""
        turns, self.turns = self.turns, None
        if turns is not None:
            turns.release()

    # ---- for the app

    def upgrade(self, response: Response) -> tuple[socket, bytes]:
        """Transfer the connection to the app, which calls this method as ``environ["dhaga.upgrade"]()``.

        ``response``: the response to the request with this environ. The server closes the connection when the app
        returns. At a graceful stop, the app receives end-of-file after the data that has come. Parks: never. Returns:
        the socket, and the bytes received after the request. Raises: RuntimeError.
        """
        if self.upgraded or response is not self.response or response.sent:
            raise RuntimeError("a connection can be taken over only once, and only before the response has begun")
        if not self.parser.complete:
            raise RuntimeError("read the request's body to its end before you take over the connection")
        self.upgraded = self.closing = True
        response.sent = True
        self.end_turn()
        if self.server.stopping:
            end_receiving(self.sock)
        data, self.parser.buffer = self.parser.buffer, b""
        return self.sock, data

    def disconnected(self) -> bool:
        """Return whether the client has closed its side. An app calls this as ``environ["dhaga.disconnected"]()``.

        Parks: never. A client that closes only its sending side, and still waits for the answer, also counts as
        disconnected. Few clients do this, and few proxies allow it.
        """
        return self.client_gone or has_closed(self.sock)

    # ---- the end

    def stop_when_idle(self) -> None:
        """End an idle connection soon, unless a request arrives.

        If the app has taken over the connection, shut down receiving, so that the app ends. From: the server's
        scheduler, at a graceful stop.
        """
        if self.idle:
            self.idle_timer.shorten(IDLE_GRACE_SECONDS)
        elif self.upgraded:
            end_receiving(self.sock)

    def client_may_send(self) -> bool:
        """Return whether the client may still send, or has already sent another request."""
        parser = self.parser
        if not parser.complete or parser.error is not None or parser.buffer:
            return True
        return self.closing and system.has_input(self.sock.fileno())

    def close(self) -> None:
        """If the client may still send, shut down our sending side, and read on for ``LINGER_SECONDS``."""
        if self.client_gone or self.upgraded or not self.client_may_send():
            return
        if hasattr(self.sock, "unwrap"):
            send_close_notify(self.sock)  # the shutdown below ends TLS without a close_notify
        self.sock.shutdown(SHUT_WR)
        self.idle_timer.arm(LINGER_SECONDS)
        clock = self.me.scheduler.clock
        ends_at = clock() + LINGER_SECONDS
        while self.sock.recv(RECEIVE_BYTES) and clock() < ends_at:  # the timer ends only a recv that waits
            self.parser.close()

    def log_client_gone(self, error: OSError) -> None:
        """Log that a client has disconnected. The level is DEBUG, because this is not an error of the server."""
        logger.debug("%r: the client has disconnected: %s", self, error)
