"""``eventlet.websocket``: WebSockets in a WSGI app, of version 13 (RFC 6455)."""

from __future__ import annotations

import base64
import errno
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from . import _websocket_deflate as deflate
from ._websocket_rfc6455 import (
    MAX_FRAME_LENGTH,
    ConnectionClosedError,
    FailedConnectionError,
    ProtocolError,
    RFC6455WebSocket,
    WebSocket,
)

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
"""Errors of a handler whose client is gone."""


class BadRequest(Exception):
    """A request that gets no WebSocket."""


class WebSocketWSGI:
    """WSGI app for a function that gets a WebSocket. Source: ``eventlet.websocket.WebSocketWSGI``.

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
        self.protocols: list[str] = list(supported_protocols)

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
            # Other servers of Dhaga send the Connection header themselves.
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

    def accept(self, environ: dict[str, Any]) -> RFC6455WebSocket:
        """Claim the connection and send the handshake. Raises: BadRequest, OSError."""
        if "websocket" not in environ.get("HTTP_UPGRADE", "").lower():
            raise BadRequest("Upgrade: websocket is missing")
        if "upgrade" not in environ.get("HTTP_CONNECTION", "").lower():
            raise BadRequest("Connection: Upgrade is missing")
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
        websocket._buf += received
        return websocket


def take_over(environ: dict[str, Any]) -> tuple[Any, bytes]:
    """Claim the connection. Returns: its socket, and the bytes received already. Raises: BadRequest."""
    if "dhaga.upgrade" in environ:
        return environ["dhaga.upgrade"]()  # type: ignore[no-any-return]
    if hasattr(environ.get("eventlet.input"), "get_socket"):
        return environ["eventlet.input"].get_socket(), b""
    raise BadRequest("the server gives no connections away: serve this app by Dhaga's")


def send_head(sock: Any, lines: list[str]) -> None:
    """Send a head. Raises: OSError."""
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
