"""The keep-alive loop of one server connection: request, response, next request, in the connection's dhaga.

States: idle (no byte of a next request received), reading a head, answering, closing (no request follows), ended. A
graceful stop cuts only idle connections; any other one ends with its response. ``upgraded``: the app has taken over the
socket.

``idle_timer`` bounds each wait of the connection: for the next request, the rest of a head, a piece of a body, room for
a piece of a response; while the app works it is off. It also bounds the waits of the app's other dhagas on the body.
Before the connection is reused, the unread rest of a body is drained, up to a bound. Before it is closed while the
client still sends, it is read for a moment: an immediate close would send a RST, which discards the response.
Bodies and sends: ``transfers``; parsing: ``request_parser``; the response's bytes: ``response``.
"""

from __future__ import annotations

import logging
import math
from contextlib import nullcontext
from contextvars import copy_context
from io import BufferedReader, BytesIO
from typing import TYPE_CHECKING, Any

from ..._kernel.api import Timeout
from ..._kernel.errors import Expired
from ..._kernel.run.call_outs import calls_out
from ..._kernel.run.scheduler import begin_new_work
from ..._kernel.run.turn_budget import yield_if_due
from ...socket import SHUT_WR, socket
from ..limits import Refusal
from .app_socket import AppSocket, end_receiving, has_closed
from .request_body import body_reader
from .response import CLOSED_SINK, Response
from .transfers import LINGER_SECONDS, RECEIVE_BYTES, Transfers

if TYPE_CHECKING:
    from ..._sync.semaphore import Semaphore
    from ..wsgi import Server

logger = logging.getLogger("dhaga")

IDLE_GRACE_SECONDS = 1.0
"""Seconds for which an idle connection is still read when the server stops: the next request of a busy client may be on
its way. (Without them, 10 reloads under 6 such clients lost 26 requests.)
"""

STRAY_BYTES = b"", b"\r", b"\r\n"
"""Data before a request that is ignored: an empty line, which old clients send after a body (RFC 9112, 2.2)."""

LEFT_UPGRADED = ConnectionError, StopIteration
"""The errors by which apps of werkzeug and gunicorn leave a connection that they have taken over."""

UNAVAILABLE = "503 Service Unavailable"

NO_BOUND = nullcontext()
"""The block of a request without a timeout; entering it takes 50 ns."""


class ServerConnection(Transfers):
    """Serves the requests on one socket until either end closes it. Created by ``Server`` in the connection's dhaga."""

    __slots__ = (
        "base_environ", "body", "closing", "handed_over", "idle", "peer", "server_fields", "turns", "upgraded",
    )  # fmt: skip

    def __init__(self, server: Server, sock: socket, peer: Any) -> None:
        super().__init__(server, sock)
        self.peer = (peer[0], str(peer[1])) if isinstance(peer, tuple) else ("", "")
        self.base_environ = server.base_environ(sock)
        self.server_fields = server.server_fields
        self.idle = False  # no byte of a next request was received
        self.closing = False  # no request follows
        self.upgraded = False  # the app has taken over the socket
        self.handed_over = False  # it did so through the socket in its environ (AppSocket)
        self.body: BufferedReader | None = None
        self.turns: Semaphore | None = None  # this connection holds one of them

    def __repr__(self) -> str:
        return f"<ServerConnection with {self.peer[0] or 'a local client'}, {'idle' if self.idle else 'busy'}>"

    @calls_out
    def serve_requests(self) -> None:
        """Answer requests until the connection ends. Parks: while the client neither sends nor reads."""
        context = copy_context()
        me = self.me
        try:
            while self.serve_next():
                me.gr_context = context.copy()  # context variables set in a request must not reach the next
            self.close()
        except OSError as error:
            self.log_client_gone(error)
        finally:
            self.idle_timer.close()
            self.parser.close()

    @calls_out
    def serve_next(self) -> bool:
        """Serve one request. Returns: whether another may follow."""
        environ = self.next_request()
        if environ is None:
            return False
        begin_new_work()
        if self.server.turns is None:
            self.answer(environ)
        else:
            self.answer_in_turn(self.server.turns, environ)
        return not self.closing

    # ---- requests

    def next_request(self) -> dict[str, Any] | None:
        """Return the environ of the next request, or None without one."""
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
                yield_if_due()  # with a client that pipelines endlessly, this dhaga never parks
            environ = parser.head(self.base_environ) or self.rest_of_head()
        except TimeoutError:
            if not self.idle:
                self.refuse(Refusal("408 Request Timeout", "the head came too slowly"))
            parser.buffer = b"" if self.idle else parser.buffer
            return None
        except Refusal as refusal:
            self.refuse(refusal)
            return None
        if environ is not None:
            self.fill_environ(environ)
        return environ

    def receive_beginning(self) -> None:
        """Receive the first bytes of a request into the parser's ``buffer``; b"" if the client has closed."""
        parser = self.parser
        while parser.buffer in STRAY_BYTES:
            data = self.sock.recv(RECEIVE_BYTES)
            parser.buffer = parser.buffer + data if data else b""
            if not data:
                break

    def rest_of_head(self) -> dict[str, Any] | None:
        """Receive until the head is whole. Returns: None if the client has closed without sending one.

        Raises: OSError, Refusal.
        """
        parser = self.parser
        self.idle_timer.arm(self.server.limits.header_timeout)
        try:
            while parser.buffer:
                data = self.sock.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("the client disconnected in the middle of a head")
                parser.buffer += data
                environ = parser.head(self.base_environ)
                if environ is not None:
                    return environ
        finally:
            self.idle_timer.deadline = math.inf
        return None

    def fill_environ(self, environ: dict[str, Any]) -> None:
        """Add the connection's part to an environ: peer, body, and the functions of ``dhaga.…``."""
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.peer
        environ["dhaga.upgrade"] = self.upgrade
        environ["dhaga.disconnected"] = self.disconnected
        parser = self.parser
        self.body_wait = 0.0
        if parser.complete:
            environ["wsgi.input"] = BytesIO()
        else:
            environ["wsgi.input"] = self.body = body_reader(parser.pieces, self.more_body)

    # ---- answers

    @calls_out
    def answer_in_turn(self, turns: Semaphore, environ: dict[str, Any]) -> None:
        """Answer once the app has fewer than ``concurrency`` requests. Parks: until then (``semaphore.acquire``)."""
        if not turns.acquire(blocking=False):
            if not turns.acquire(timeout=self.server.limits.queue_timeout):
                self.refuse(Refusal(UNAVAILABLE, "the request waited too long for its turn in the app"))
                return
            self.closing = self.client_gone = self.disconnected()  # there is no reader of the answer
        self.turns = turns
        try:
            if not self.closing:
                self.answer(environ)
        finally:
            self.end_turn()

    def end_turn(self) -> None:
        """Give this request's turn to the next one: at the end, or when the app takes over the connection."""
        turns, self.turns = self.turns, None
        if turns is not None:
            turns.release()

    @calls_out
    def answer(self, environ: dict[str, Any]) -> None:
        """Call the app and send its result. Raises: OSError if the client has disconnected."""
        response = self.response = Response(self, environ["REQUEST_METHOD"], environ["SERVER_PROTOCOL"])
        result: Any = None
        environ["werkzeug.socket"] = environ["gunicorn.socket"] = AppSocket(self, response)
        try:
            seconds = self.server.limits.request_timeout
            with NO_BOUND if seconds is None else Timeout(seconds, Refusal(UNAVAILABLE, f"it took over {seconds:g} s")):
                result = self.server.app(environ, response.start)
                if not self.upgraded:
                    response.send_all(result)
        except Exception as error:
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
        if not self.parser.complete and not self.closing and not self.drain_body():
            self.closing = True

    def close_body(self, body: BufferedReader) -> None:
        """Close the body's file, so that no dhaga of the app reads the next request's body through it."""
        self.body = None
        try:
            body.close()
        except RuntimeError:  # io.BufferedReader refuses: another dhaga is inside a read
            logger.error("the app returned while another dhaga still reads the request's body: the connection ends")
            self.closing = self.client_gone = True

    def close_result(self, result: Any) -> None:
        try:
            if hasattr(result, "close"):
                result.close()
        except Exception:
            logger.exception("close() of the app's result failed")
            self.closing = True

    def fail(self, error: Exception, environ: dict[str, Any], response: Response) -> None:
        """Answer for an app that failed. Once the response has begun, the connection can only be cut."""
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
            self.refuse(refusal or Refusal("500 Internal Server Error", "the app failed"), response)

    def refuse(self, refusal: Refusal, response: Response | None = None) -> None:
        """Send the refusal as the response; the connection ends."""
        logger.debug("%r: %s: %s", self, refusal.status, refusal)
        self.closing = True
        response = response or Response(self, "", "HTTP/1.1")
        response.status, response.sent = "", False
        text = self.server.refusal_text(refusal).encode()
        response.start(refusal.status, [("Content-Type", "text/plain; charset=utf-8")])
        response.length = response.remaining = None
        response.send_whole(text)

    def keeps_alive(self) -> bool:
        """Return whether another request may follow the response that now begins; its head says the same."""
        parser = self.parser
        if not parser.persistent or self.server.stopping or parser.expects_continue or parser.error is not None:
            self.closing = True
        return not self.closing

    def close_after_response(self) -> None:
        """End the connection after this response."""
        self.closing = True

    # ---- for the app

    def upgrade(self) -> tuple[socket, bytes]:
        """Transfer the connection to the app: ``environ["dhaga.upgrade"]``. The server closes it when the app returns.

        Parks: never. Returns: the socket, and the bytes received after the request. Raises: RuntimeError.
        """
        response = self.response
        if self.upgraded or response is None or response.sent:
            raise RuntimeError("a connection can be taken over only once, and only before the response has begun")
        if not self.parser.complete:
            raise RuntimeError("read the request's body to its end before you take over the connection")
        self.upgraded = self.closing = True
        response.sent = True
        self.end_turn()
        data, self.parser.buffer = self.parser.buffer, b""
        return self.sock, data

    def disconnected(self) -> bool:
        """Return whether the client has closed its side: ``environ["dhaga.disconnected"]``, for long polls.

        Parks: never. A client that half-closes and still waits for the answer counts as disconnected: few clients do
        that, and few proxies allow it.
        """
        return self.client_gone or has_closed(self.sock)

    # ---- the end

    def stop_when_idle(self) -> None:
        """End an idle connection soon, unless a request comes; end a taken one when its app waits to receive more.

        From: the server's scheduler, at a graceful stop.
        """
        if self.idle:
            self.idle_timer.shorten(IDLE_GRACE_SECONDS)
        elif self.handed_over:
            end_receiving(self.sock)

    def close(self) -> None:
        """Half-close, and read for ``LINGER_SECONDS``, so that a client still sending can read its response."""
        parser = self.parser
        if self.client_gone or self.upgraded or (parser.complete and parser.error is None and not parser.buffer):
            return
        self.sock.shutdown(SHUT_WR)
        self.idle_timer.arm(LINGER_SECONDS)
        while self.sock.recv(RECEIVE_BYTES):
            self.parser.close()

    def log_client_gone(self, error: OSError) -> None:
        """Log a disconnected client; it is not an error of the server."""
        logger.debug("%r: the client has disconnected: %s", self, error)
