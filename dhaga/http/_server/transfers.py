"""The transfers of a server connection: bodies come in and responses go out in pieces, each within its time limit.

The first failed send, or receive of a body, sets ``client_gone``, and all later ones fail at once. Requests and their
answers: ``connection``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..._kernel.api import Timeout
from ..._kernel.run.turn_budget import yield_if_due
from ..._kernel.wait.current import this_waiter
from ...socket import socket
from ..limits import Refusal
from .idle_timer import IdleTimer
from .request_parser import RequestParser

if TYPE_CHECKING:
    from ..wsgi import Server
    from .response import Response

RECEIVE_BYTES = 65_536
"""Size of a recv: an upload arrives in as few pieces as the kernel's buffers allow."""

WRITE_BYTES = 65_536
"""Bytes of a response that are sent within one write timeout."""

DRAIN_BYTES = 262_144
"""Bytes of an unread body that are read and dropped to reuse the connection; 4 to 8 recvs."""

LINGER_SECONDS = 2.0
"""Seconds in which a client that still sends may read its refusal; an immediate close would discard it by a RST."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Transfers:
    """The socket of a connection, the parser of its requests, and the timer that bounds each wait."""

    __slots__ = "body_wait", "client_gone", "idle_timer", "me", "parser", "response", "server", "sock"

    def __init__(self, server: Server, sock: socket) -> None:
        self.server = server
        self.sock = sock
        self.parser = RequestParser(server.limits)
        self.me: Any = this_waiter()
        self.idle_timer = IdleTimer(self.me)
        self.body_wait = 0.0  # seconds waited for the current body so far
        self.client_gone = False  # a receive or send has failed
        self.response: Response | None = None

    # ---- bodies

    def more_body(self) -> bool:
        """Put the next piece of the body into the parser's ``pieces``; return False at its end.

        Raises: OSError, Refusal.
        """
        parser = self.parser
        if parser.error is not None:
            raise parser.error
        while not parser.complete:
            if not parser.buffer:
                parser.buffer = self.receive_body()
            else:
                yield_if_due()  # parsing a buffer of small chunks takes many turns
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
        """Receive within the body's time; b"" if the client has closed its side. Raises: OSError, TimeoutError.

        Only waits count: an app may read as slowly as it likes.
        """
        clock = self.me.scheduler.clock
        began = clock()
        self.idle_timer.arm(self.server.limits.body_seconds(self.parser.received, self.body_wait))
        try:
            return self.sock.recv(RECEIVE_BYTES)
        finally:
            self.idle_timer.deadline = math.inf
            self.body_wait += clock() - began

    def send_continue(self) -> None:
        """Send 100 Continue to a client that waits for it. Raises: OSError once the response has begun."""
        if self.response is not None and self.response.sent:
            raise OSError("the client waits for 100 Continue, but the response has begun: read the body before it")
        self.parser.expects_continue = False
        self.send(CONTINUE)

    def drain_body(self) -> bool:
        """Read and drop the unread rest of the body, up to a bound. Returns: whether its end was reached."""
        parser = self.parser
        parser.pieces.clear()
        if parser.expects_continue or parser.remaining > DRAIN_BYTES:
            return False
        bound = parser.received + DRAIN_BYTES
        try:
            with Timeout(LINGER_SECONDS):
                while self.more_body() and parser.received < bound:
                    parser.pieces.clear()
        except OSError:  # includes TimeoutError
            return False
        return parser.complete

    # ---- sending

    def send(self, data: bytes) -> None:
        """Send, each piece within the write timeout. Parks: while the client does not read (``write fd N``).

        Raises: OSError.
        """
        if self.client_gone:
            raise BrokenPipeError("the client has disconnected")
        seconds = self.server.limits.write_timeout
        yield_if_due()  # at each send, and not at one in eight as in a socket: an app computes between two sends
        try:
            if len(data) <= WRITE_BYTES:
                self.idle_timer.arm(seconds)
                self.sock.sendall(data)
            else:
                self.send_pieces(memoryview(data), seconds)
        except OSError as error:
            self.client_gone = True
            if isinstance(error, TimeoutError):
                raise BrokenPipeError(f"the client has read nothing for {seconds} s") from None
            raise
        finally:
            self.idle_timer.deadline = math.inf

    def send_pieces(self, data: memoryview, seconds: float | None) -> None:
        for begin in range(0, len(data), WRITE_BYTES):
            self.idle_timer.arm(seconds)
            self.sock.sendall(data[begin : begin + WRITE_BYTES])

    def send_file(self, file: Any, offset: int, count: int) -> int:
        """Send a part of a regular file, each piece within the write timeout.

        Parks, raises: as ``send``. Returns: the number of bytes, fewer if the file was truncated meanwhile.
        """
        begin, stop = offset, offset + count
        try:
            while offset < stop:
                self.idle_timer.arm(self.server.limits.write_timeout)
                sent = self.sock.sendfile(file, offset, min(16 * WRITE_BYTES, stop - offset))
                if not sent:  # the file was truncated meanwhile
                    break
                offset += sent
        except OSError:
            self.client_gone = True
            raise
        finally:
            self.idle_timer.deadline = math.inf
        return offset - begin
