"""A conversation: the requests and responses on one connection, one after the other, in the dhaga of that connection.

Its deadline (``deadlines.py``) stands for what it waits for now: the next request, the rest of a head, a piece of a
body, room for a piece of a response. While the app works there is none.

Not here: what a request may look like (``messages.py``), and what a response is made of (``responses.py``).
"""

from __future__ import annotations

import logging
import math
from contextvars import copy_context
from io import BufferedReader, BytesIO
from typing import TYPE_CHECKING, Any

from ..kernel import originals
from ..kernel.api import Timeout
from ..kernel.waiting import this_waiter
from ..socket import SHUT_WR, socket
from .bodies import reader
from .deadlines import Deadline
from .limits import Refusal
from .messages import Messages
from .responses import OVER, Response

if TYPE_CHECKING:
    from .wsgi import Server

logger = logging.getLogger("dhaga")

RECEIVE = 65_536
"""Bytes asked for at once: an upload comes in as few pieces as the system's buffers allow."""

PIECE = 65_536
"""Bytes of a response that are sent within one write time-out."""

DRAIN = 262_144
"""Bytes of a body that the app has left unread which are read and dropped, to keep the connection; 4 to 8 recvs."""

LINGER = 2.0
"""Seconds in which a client that still sends may read why it is refused; a close at once would reset that away."""

LAST_CALL = 1.0
"""Seconds that a connection without a request is still listened to when the server stops: the next request of a busy
client is on its way already, and would be lost. (10 reloads under 6 such clients lost 26 requests without.)"""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Conversation:
    """Serve the requests on one socket until either end is done. Calls the app; made by ``Server``."""

    __slots__ = (
        "base",
        "body",
        "closing",
        "deadline",
        "gone",
        "idle",
        "me",
        "messages",
        "peer",
        "response",
        "server",
        "sock",
        "stamp",
        "taken",
    )

    def __init__(self, server: Server, sock: socket, peer: Any) -> None:
        self.server = server
        self.sock = sock
        self.peer = (peer[0], str(peer[1])) if isinstance(peer, tuple) else ("", "")
        self.base = server.base_environ(sock)
        self.stamp = server.stamp
        self.messages = Messages(server.limits)
        self.me: Any = this_waiter()
        self.deadline = Deadline(self.me)
        self.idle = False  # nothing of a next request has come
        self.closing = False  # no request is to follow
        self.gone = False  # the client does not listen any more
        self.taken = False  # by an upgrade
        self.response: Response | None = None
        self.body: BufferedReader | None = None

    def __repr__(self) -> str:
        return f"<Conversation with {self.peer[0] or 'a local client'}, {'idle' if self.idle else 'busy'}>"

    def converse(self) -> None:
        """Answer one request after the other. Parks: while the client is silent, or does not read."""
        context = copy_context()
        me = self.me
        try:
            while self.serve_next():
                me.gr_context = context.copy()  # what the app has set for one request, the next is not to see
            self.close()
        except OSError as error:
            self.lose(error)
        finally:
            self.deadline.close()
            self.messages.close()

    def serve_next(self) -> bool:
        """Serve one request. Returns: whether another may follow."""
        environ = self.next_request()
        if environ is None:
            return False
        self.answer(environ)
        return not self.closing

    # ---- requests

    def next_request(self) -> dict[str, Any] | None:
        """Return the environ of the next request, or None if none follows."""
        messages = self.messages
        limits = self.server.limits
        try:
            if not messages.buffer:
                self.idle = True
                self.deadline.arm(LAST_CALL if self.server.stopping else limits.idle_timeout)
                messages.buffer = self.sock.recv(RECEIVE)
                self.deadline.moment = math.inf
                self.idle = False
            environ = messages.head(self.base) or self.rest_of_head()
        except TimeoutError:
            if not self.idle:
                self.refuse(Refusal("408 Request Timeout", "the head came too slowly"))
            return None
        except Refusal as refusal:
            self.refuse(refusal)
            return None
        if environ is not None:
            self.complete(environ)
        return environ

    def rest_of_head(self) -> dict[str, Any] | None:
        """Receive until the head is whole. Raises: TimeoutError, Refusal."""
        messages = self.messages
        self.deadline.arm(self.server.limits.header_timeout)
        try:
            while messages.buffer:
                more = self.sock.recv(RECEIVE)
                if not more:
                    raise ConnectionResetError("the client has left in the middle of a head")
                messages.buffer += more
                environ = messages.head(self.base)
                if environ is not None:
                    return environ
        finally:
            self.deadline.moment = math.inf
        return None

    def complete(self, environ: dict[str, Any]) -> None:
        """Put into the environ what comes from the connection."""
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.peer
        environ["dhaga.upgrade"] = self.upgrade
        environ["dhaga.disconnected"] = self.disconnected
        messages = self.messages
        if messages.complete:
            environ["wsgi.input"] = BytesIO()
        else:
            environ["wsgi.input"] = self.body = reader(messages.pieces, self.more_body)

    # ---- bodies

    def more_body(self) -> bool:
        """Bring the next piece of the body; False at its end. Raises: OSError, Refusal among them."""
        messages = self.messages
        if messages.fault is not None:
            raise messages.fault
        while not messages.complete:
            if not messages.buffer:
                messages.buffer = self.receive_body()
            before = messages.received
            messages.feed()
            if messages.received != before:
                return True
        return False

    def receive_body(self) -> bytes:
        messages = self.messages
        if self.gone:
            raise ConnectionResetError("the client has gone")
        if messages.expects:
            self.expect()
        try:
            data = self.receive(self.server.limits.body_timeout)
        except TimeoutError:
            messages.fault = Refusal("408 Request Timeout", "the body came too slowly")
            raise messages.fault from None
        except OSError:
            self.gone = True
            raise
        if not data:
            self.gone = True
            raise ConnectionResetError("the client has left in the middle of a body")
        return data

    def receive(self, timeout: float | None) -> bytes:
        """Receive what comes within ``timeout`` seconds; nothing: the client sends no more."""
        self.deadline.arm(timeout)
        try:
            return self.sock.recv(RECEIVE)
        finally:
            self.deadline.moment = math.inf

    def expect(self) -> None:
        """Tell a client that waits for it to send the body; after the response it would be too late."""
        if self.response is not None and self.response.sent:
            raise OSError("the client waits for 100 Continue, and the response has begun: read the body before that")
        self.messages.expects = False
        self.send(CONTINUE)

    def drain(self) -> bool:
        """Read what the app has left of the body, up to a bound. Returns: whether that was all of it."""
        messages = self.messages
        messages.pieces.clear()
        if messages.expects or messages.rest > DRAIN:
            return False
        bound = messages.received + DRAIN
        try:
            with Timeout(LINGER):
                while self.more_body() and messages.received < bound:
                    messages.pieces.clear()
        except OSError:  # TimeoutError is one
            return False
        return messages.complete

    # ---- answers

    def answer(self, environ: dict[str, Any]) -> None:
        """Call the app, and send what it returns. Raises: OSError if the client has gone."""
        response = self.response = Response(self, environ["REQUEST_METHOD"], environ["SERVER_PROTOCOL"])
        result: Any = None
        try:
            result = self.server.app(environ, response.start)
            if not self.taken:
                response.send_all(result)
        except Exception as error:
            self.fail(error, environ, response)
        finally:
            if result.__class__ is not list:
                self.close_result(result)
            self.response = None
            response.outlet = OVER
            if self.body is not None:
                self.close_body(self.body)
        log = self.server.access_log
        if log is not None and response.status:
            log.note(environ, response.status, response.size)
        if not self.messages.complete and not self.closing and not self.drain():
            self.closing = True

    def close_body(self, body: BufferedReader) -> None:
        """Let nobody who still has this body read the next one."""
        self.body = None
        try:
            body.close()
        except RuntimeError:  # another dhaga of the app is in the middle of a read
            logger.error("the app has returned while another dhaga reads the request's body: the connection ends")
            self.closing = self.gone = True

    def close_result(self, result: Any) -> None:
        try:
            if hasattr(result, "close"):
                result.close()
        except Exception:
            logger.exception("close() of what the app has returned failed")
            self.closing = True

    def fail(self, error: Exception, environ: dict[str, Any], response: Response) -> None:
        """Answer for an app that has failed, if nothing is sent yet; if something is, all that is left is to cut."""
        self.closing = True
        if self.gone or (self.taken and isinstance(error, ConnectionError)):
            logger.debug("the client of %s has gone: %s", environ["REQUEST_URI"], error)
            return
        refusal = error if isinstance(error, Refusal) else None
        if refusal is None:
            logger.error("the app failed at %s %s", environ["REQUEST_METHOD"], environ["REQUEST_URI"], exc_info=error)
        if not response.sent and not self.taken:
            self.refuse(refusal or Refusal("500 Internal Server Error", "the app failed"), response)

    def refuse(self, refusal: Refusal, response: Response | None = None) -> None:
        """Say why there is no answer; the connection ends."""
        logger.debug("%r: %s: %s", self, refusal.status, refusal)
        self.closing = True
        response = response or Response(self, "", "HTTP/1.1")
        response.status, response.sent = "", False
        text = f"{refusal.status}\n".encode()
        response.start(refusal.status, [("Content-Type", "text/plain; charset=utf-8")])
        response.length = response.left = None
        response.send_whole(text)

    def persists(self) -> bool:
        """Tell whether another request may follow the response that now begins; then the client is told, too."""
        messages = self.messages
        if not messages.persistent or self.server.stopping or messages.expects or messages.fault is not None:
            self.closing = True
        return not self.closing

    def end(self) -> None:
        """Have no request follow."""
        self.closing = True

    # ---- sending

    def send(self, data: bytes) -> None:
        """Send, each piece in time. Parks: while the client does not read (``write fd N``). Raises: OSError."""
        if self.gone:
            raise BrokenPipeError("the client has gone")
        seconds = self.server.limits.write_timeout
        try:
            if len(data) <= PIECE:
                self.deadline.arm(seconds)
                self.sock.sendall(data)
            else:
                self.send_pieces(memoryview(data), seconds)
        except OSError as error:
            self.gone = True
            if isinstance(error, TimeoutError):
                raise BrokenPipeError(f"the client has read nothing for {seconds} s") from None
            raise
        finally:
            self.deadline.moment = math.inf

    def send_pieces(self, data: memoryview, seconds: float | None) -> None:
        for begin in range(0, len(data), PIECE):
            self.deadline.arm(seconds)
            self.sock.sendall(data[begin : begin + PIECE])

    def send_file(self, file: Any, offset: int, count: int) -> int:
        """Send a part of a regular file, each piece in time. Parks, raises: as ``send``. Returns: how many bytes."""
        begin, end = offset, offset + count
        try:
            while offset < end:
                self.deadline.arm(self.server.limits.write_timeout)
                sent = self.sock.sendfile(file, offset, min(16 * PIECE, end - offset))
                if not sent:  # somebody has cut the file
                    break
                offset += sent
        except OSError:
            self.gone = True
            raise
        finally:
            self.deadline.moment = math.inf
        return offset - begin

    # ---- what an app may call

    def upgrade(self) -> tuple[socket, bytes]:
        """Take the connection over: ``environ["dhaga.upgrade"]``. The server closes it when the app returns.

        Parks: never. Returns: the socket, and what was received after the request. Raises: RuntimeError.
        """
        response = self.response
        if self.taken or response is None or response.sent:
            raise RuntimeError("a connection can be taken over once, and before the response has begun")
        if not self.messages.complete:
            raise RuntimeError("read the request's body to its end before you take over the connection")
        self.taken = self.closing = True
        response.sent = True
        data, self.messages.buffer = self.messages.buffer, b""
        return self.sock, data

    def disconnected(self) -> bool:
        """Tell whether the client has closed its side: ``environ["dhaga.disconnected"]``, for long polls to look at.

        Parks: never. Some clients close it for writing alone, and wait for the answer: they are rare, as proxies are
        that let them.
        """
        poll = originals.poll()
        poll.register(self.sock.fileno(), getattr(originals.select_module, "POLLRDHUP", 0))
        return self.gone or bool(poll.poll(0))

    # ---- the end

    def release(self) -> None:
        """End the conversation with the request under way, or one that comes soon; called on the scheduler's thread."""
        if self.idle:
            self.deadline.hasten(LAST_CALL)

    def close(self) -> None:
        """Let a client that may still be sending read what it was told, before the socket is closed."""
        messages = self.messages
        if self.gone or self.taken or (messages.complete and messages.fault is None and not messages.buffer):
            return
        self.sock.shutdown(SHUT_WR)
        self.deadline.arm(LINGER)
        while self.sock.recv(RECEIVE):
            self.messages.close()

    def lose(self, error: OSError) -> None:
        """Take note that the client has gone: its matter, and no error."""
        logger.debug("%r: the client has gone: %s", self, error)
