"""The transfers of a server connection: bodies are received, and responses are sent, each piece within a time limit.

When a send fails, or the client disconnects within a body, ``client_gone`` is set, and all later sends and receives
fail at once. After a cancelled send (``cut_off``), later sends also fail, and the connection ends with its response.
The module ``connection`` handles requests and their answers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..._kernel.run.turn_budget import yield_if_due
from ..._kernel.timeout import Timeout
from ..._kernel.wait.current import this_waiter
from ...socket import socket
from ..limits import Refusal
from .idle_timer import IdleTimer
from .request_parser import RequestParser

if TYPE_CHECKING:
    from ..wsgi import Server
    from .response import Response

RECEIVE_BYTES = 65_536
"""Maximum number of bytes per ``recv``, so that an upload arrives in few pieces."""

WRITE_BYTES = 65_536
"""Number of bytes of a response that one write timeout covers; for files, 16 times this number."""

DRAIN_BYTES = 262_144
"""Maximum number of unread bytes of a body that are read and dropped to reuse the connection. This takes 4 to 8
receives.
"""

LINGER_SECONDS = 2.0
"""Seconds in which a client that still sends can read the response. An immediate close would cause a RST, which
discards the response.
"""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Transfers:
    """A connection with its socket, its request parser, and the timers that limit each wait.

    A response sends its bytes through this class, which is a ``response.ResponseSink``.
    """

    __slots__ = (
        "body_wait", "client_gone", "closing", "cut_off", "idle_timer", "me", "parser", "receiving", "response",
        "send_timer", "server", "server_fields", "sock",
    )  # fmt: skip

    def __init__(self, server: Server, sock: socket) -> None:
        self.server = server
        self.sock = sock
        self.parser = RequestParser(server.limits)
        self.me: Any = this_waiter()
        self.idle_timer = IdleTimer(self.me)  # limits waits for bytes
        self.send_timer = IdleTimer(self.me)  # limits sends, while another dhaga may wait for bytes
        self.receiving = False  # a dhaga or an OS thread waits for a piece of the body
        self.body_wait = 0.0  # seconds of waiting for the current body so far
        self.client_gone = False  # a send has failed, or the client has disconnected
        self.cut_off = False  # a send has failed or was cancelled
        self.closing = False  # no request follows
        self.server_fields = server.server_fields
        self.response: Response | None = None

    # ---- bodies

    def more_body(self) -> bool:
        """Append the next piece of the body to the parser's ``pieces``. Returns: False at the body's end.

        Raises: OSError, Refusal.
        """
        parser = self.parser
        if parser.error is not None:
            raise parser.error
        while not parser.complete:
            if not parser.buffer:
                parser.buffer = self.receive_body()
            else:
                yield_if_due()  # parsing a buffer of many small chunks takes longer than one turn
            received_before = parser.received
            parser.feed()
            if parser.received != received_before:
                return True
        return False

    def receive_body(self) -> bytes:
        parser = self.parser
        if self.client_gone:
            raise ConnectionResetError("the client has disconnected")
        if parser.expects_continue:
            self.send_continue()
        try:
            data = self.receive_within_rate()
        except TimeoutError:
            parser.error = Refusal("408 Request Timeout", "the body came too slowly")
            raise parser.error from None
        except OSError:
            self.client_gone = True
            raise
        if not data:
            self.client_gone = True
            raise ConnectionResetError("the client disconnected in the middle of a body")
        return data

    def receive_within_rate(self) -> bytes:
        """Receive within the time limit of a body. Returns: b"" if the client has closed its side.

        Only waits for the client count, so that the app may read slowly. Raises: OSError, TimeoutError.
        """
        clock = self.me.scheduler.clock
        began = clock()
        self.idle_timer.arm(self.server.limits.body_seconds(self.parser.received, self.body_wait))
        self.receiving = True
        try:
            return self.sock.recv(RECEIVE_BYTES)
        finally:
            self.receiving = False
            self.idle_timer.deadline = math.inf
            self.body_wait += clock() - began

    def send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it. Raises: OSError if the response has begun."""
        if self.response is not None and self.response.sent:
            raise OSError("the client waits for 100 Continue, but the response has begun: read the body before it")
        self.parser.expects_continue = False
        self.send(CONTINUE)

    def drain_body(self) -> bool:
        """Read and drop the unread rest of the body, up to ``DRAIN_BYTES``. Returns: whether the body has ended."""
        parser = self.parser
        parser.pieces.clear()
        if parser.expects_continue or parser.remaining > DRAIN_BYTES:
            return False
        bound = parser.received + DRAIN_BYTES
        try:
            with Timeout(LINGER_SECONDS):
                while parser.received < bound and self.more_body():
                    parser.pieces.clear()
        except OSError:  # includes TimeoutError
            return False
        return parser.complete

    # ---- responses

    def keeps_alive(self) -> bool:
        """Return whether another request may follow the response that now begins. From: ``Response.head``."""
        parser = self.parser
        if not parser.persistent or self.server.stopping or parser.expects_continue or parser.error is not None:
            self.closing = True
        return not self.closing

    def close_after_response(self) -> None:
        """End the connection after this response."""
        self.closing = True

    def send(self, data: bytes) -> None:
        """Send ``data``, each piece within the write timeout. Parks: while the client does not read (``write fd N``).

        Raises: OSError.
        """
        if self.client_gone or self.cut_off:
            self.client_gone = True
            raise BrokenPipeError("the client has disconnected")
        seconds = self.server.limits.write_timeout
        try:
            yield_if_due()  # checked at each send instead of each eighth send, because apps compute between sends
            if len(data) <= WRITE_BYTES:
                self.send_timer.arm(seconds)
                self.sock.sendall(data)
            else:
                self.send_pieces(memoryview(data), seconds)
        except BaseException as error:
            self.break_off(error)
            if isinstance(error, TimeoutError):
                raise BrokenPipeError(f"the client has read nothing for {seconds} s") from None
            raise
        finally:
            self.send_timer.deadline = math.inf

    def break_off(self, error: BaseException) -> None:
        """End the connection after an unfinished send. A client would read later bytes as the rest of this send.

        The app may have cancelled the send, for example with a ``Timeout``, and continue.
        """
        self.closing = self.cut_off = True
        self.client_gone = isinstance(error, OSError)

    def send_pieces(self, data: memoryview, seconds: float | None) -> None:
        for begin in range(0, len(data), WRITE_BYTES):
            self.send_timer.arm(seconds)
            self.sock.sendall(data[begin : begin + WRITE_BYTES])

    def send_file(self, file: Any, offset: int, count: int) -> int:
        """Send a part of a regular file, each piece within the write timeout.

        Parks, raises: as ``send`` does. Returns: the number of bytes sent, less than ``count`` if the file is truncated
        meanwhile.
        """
        begin, stop = offset, offset + count
        try:
            while offset < stop:
                self.send_timer.arm(self.server.limits.write_timeout)
                sent = self.sock.sendfile(file, offset, min(16 * WRITE_BYTES, stop - offset))
                if not sent:  # the file was truncated meanwhile
                    break
                offset += sent
        except BaseException as error:
            self.break_off(error)
            raise
        finally:
            self.send_timer.deadline = math.inf
        return offset - begin
