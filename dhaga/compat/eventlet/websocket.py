"""``eventlet.websocket``: WebSockets in a WSGI app, of version 13 (RFC 6455) and of the drafts before it."""

from __future__ import annotations

import base64
import errno
import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any

from . import _websocket_deflate as deflate
from ._websocket_hixie import MAX_FRAME_LENGTH, WebSocket
from ._websocket_rfc6455 import ConnectionClosedError, FailedConnectionError, ProtocolError, RFC6455WebSocket

__all__ = [
    "ConnectionClosedError",
    "FailedConnectionError",
    "ProtocolError",
    "RFC6455WebSocket",
    "WebSocket",
    "WebSocketWSGI",
]

DEFAULT_MAX_FRAME_LENGTH = MAX_FRAME_LENGTH
KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

CLIENT_GONE = errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN
"""Errors of a handler that are its client's end."""


class BadRequest(Exception):
    """A request that gets no WebSocket."""


class WebSocketWSGI:
    """Make a WSGI app of a function that takes a WebSocket. Source: ``eventlet.websocket.WebSocketWSGI``.

    It is served by ``eventlet.wsgi.server``, or any server of Dhaga. A request that asks for no WebSocket gets 400.
    """

    def __init__(
        self,
        handler: Callable[[Any], Any] | None = None,
        max_frame_length: int = DEFAULT_MAX_FRAME_LENGTH,
        supported_protocols: Iterable[str] = (),
    ) -> None:
        self.handler: Any = handler
        self.max_frame_length = max_frame_length
        self.protocols = list(supported_protocols)

    @classmethod
    def configured(cls, handler: Any = None, supported_protocols: Iterable[str] = ()) -> Any:
        """Return an app, or without a handler a decorator that makes one."""
        if handler is None:
            return lambda handler: cls(handler, supported_protocols=supported_protocols)
        return cls(handler, supported_protocols=supported_protocols)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            websocket = self.accept(environ)
        except BadRequest:
            # Another server of Dhaga says by itself whether the connection ends.
            start_response("400 Bad Request", [("Connection", "close")] if "eventlet.posthooks" in environ else [])
            return []
        if "eventlet.set_idle" in environ:
            environ["eventlet.set_idle"]()  # the end of the server does not wait for the client
        try:
            self.handler(websocket)
        except OSError as error:
            if error.errno not in CLIENT_GONE and not websocket.websocket_closed:
                raise
        finally:
            websocket.close()
        return []

    def accept(self, environ: dict[str, Any]) -> WebSocket:
        """Take the connection over and send the handshake. Raises: BadRequest, OSError."""
        if "websocket" not in environ.get("HTTP_UPGRADE", "").lower():
            raise BadRequest("Upgrade: websocket is missing")
        if "upgrade" not in environ.get("HTTP_CONNECTION", "").lower():
            raise BadRequest("Connection: Upgrade is missing")
        if "HTTP_SEC_WEBSOCKET_KEY1" in environ:
            return self.accept_hixie_76(environ)
        if environ.keys() & {"HTTP_SEC_WEBSOCKET_KEY", "HTTP_SEC_WEBSOCKET_VERSION"}:
            return self.accept_rfc6455(environ)
        return self.accept_hixie_75(environ)

    def accept_rfc6455(self, environ: dict[str, Any]) -> WebSocket:
        """Send the handshake of version 13."""
        if environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13" or "HTTP_SEC_WEBSOCKET_KEY" not in environ:
            raise BadRequest("Sec-WebSocket-Version must be 13, and a Sec-WebSocket-Key be given")
        key = environ["HTTP_SEC_WEBSOCKET_KEY"].encode("latin-1")
        accept = base64.b64encode(hashlib.sha1(key + KEY_SUFFIX, usedforsecurity=False).digest()).decode()
        offered = [each.strip() for each in environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")]
        chosen = next((each for each in offered if each and each in self.protocols), None)
        extensions = deflate.negotiate(environ.get("HTTP_SEC_WEBSOCKET_EXTENSIONS", ""))
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines.append(f"Sec-WebSocket-Accept: {accept}")
        if chosen:
            lines.append(f"Sec-WebSocket-Protocol: {chosen}")
        if extensions:
            lines.append(f"Sec-WebSocket-Extensions: {deflate.answer(extensions)}")
        sock, received = take_over(environ)
        send_head(sock, lines)
        websocket = RFC6455WebSocket(
            sock, environ, protocol=chosen, extensions=extensions, max_frame_length=self.max_frame_length
        )
        websocket._buf = received
        return websocket

    def accept_hixie_76(self, environ: dict[str, Any]) -> WebSocket:
        """Send the handshake of the draft 76, with the answer to its three keys."""
        if "HTTP_SEC_WEBSOCKET_KEY2" not in environ:
            raise BadRequest("Sec-WebSocket-Key2 is missing")
        numbers = [number_of(environ[f"HTTP_SEC_WEBSOCKET_KEY{which}"]) for which in (1, 2)]
        sock, received = take_over(environ)
        while len(received) < 8:
            data = sock.recv(4096)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "the client has left in the middle of the handshake")
            received += data
        answer = hashlib.md5(struct.pack(">II", *numbers) + received[:8], usedforsecurity=False).digest()
        lines = [*beginning("WebSocket Protocol Handshake"), f"Sec-WebSocket-Origin: {environ.get('HTTP_ORIGIN', '')}"]
        protocol = environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL")
        if protocol:
            lines.append(f"Sec-WebSocket-Protocol: {protocol}")
        lines.append(f"Sec-WebSocket-Location: {location(environ)}")
        send_head(sock, lines, answer)
        return self.hixie(sock, environ, 76, received[8:])

    def accept_hixie_75(self, environ: dict[str, Any]) -> WebSocket:
        """Send the handshake of the draft 75."""
        sock, received = take_over(environ)
        lines = [
            *beginning("Web Socket Protocol Handshake"),
            f"WebSocket-Origin: {environ.get('HTTP_ORIGIN', '')}",
            f"WebSocket-Location: {location(environ)}",
        ]
        send_head(sock, lines)
        return self.hixie(sock, environ, 75, received)

    def hixie(self, sock: Any, environ: dict[str, Any], version: int, received: bytes) -> WebSocket:
        websocket = WebSocket(sock, environ, version)
        websocket.max_frame_length = self.max_frame_length
        websocket._buf = received
        websocket._parse()
        return websocket


def take_over(environ: dict[str, Any]) -> tuple[Any, bytes]:
    """Take the connection over. Returns: its socket, and the bytes received already. Raises: BadRequest."""
    if "dhaga.upgrade" in environ:
        return environ["dhaga.upgrade"]()  # type: ignore[no-any-return]
    if hasattr(environ.get("eventlet.input"), "get_socket"):
        return environ["eventlet.input"].get_socket(), b""
    raise BadRequest("the server gives no connections away: serve this app by Dhaga's")


def beginning(reason: str) -> list[str]:
    """Return the first lines of a handshake before version 13."""
    return [f"HTTP/1.1 101 {reason}", "Upgrade: WebSocket", "Connection: Upgrade"]


def send_head(sock: Any, lines: list[str], body: bytes = b"") -> None:
    """Send a head, and what follows it. Raises: OSError."""
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)


def location(environ: dict[str, Any]) -> str:
    """Return the request's URL, as a WebSocket's."""
    scheme = "wss" if environ.get("wsgi.url_scheme") == "https" else "ws"
    return f"{scheme}://{environ.get('HTTP_HOST', '')}{environ.get('REQUEST_URI', '')}"


def number_of(key: str) -> int:
    """Return the number that a key of the draft 76 hides: its digits, divided by its spaces. Raises: BadRequest."""
    digits = "".join(each for each in key if "0" <= each <= "9")
    spaces = key.count(" ")
    if not digits or not spaces or int(digits) % spaces or int(digits) // spaces >= 1 << 32:
        raise BadRequest("a key is malformed")
    return int(digits) // spaces
