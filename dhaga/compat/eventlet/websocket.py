"""``eventlet.websocket``: WebSockets of version 13 (RFC 6455) in a WSGI app."""

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
"""Errors that a handler raises after its client has gone."""


class BadRequest(Exception):
    """Raised for a request that is not a valid WebSocket handshake; ``status`` is the response's status."""

    status = "400 Bad Request"


class ForbiddenOrigin(BadRequest):
    """Raised for a handshake from an origin that the app refuses."""

    status = "403 Forbidden"


class WebSocketWSGI:
    """WSGI app around a function that gets a WebSocket. Source: ``eventlet.websocket.WebSocketWSGI``.

    ``eventlet.wsgi.server`` or any server of Dhaga can serve it. A request that is not a WebSocket handshake gets 400,
    and a handshake gets 403 if ``origin_checker(host, origin)`` returns a false value.
    """

    origin_checker: Any = None

    def __init__(
        self,
        handler: Callable[[Any], Any] | None = None,
        max_frame_length: int = DEFAULT_MAX_FRAME_LENGTH,
        supported_protocols: Iterable[str] = (),
    ) -> None:
        self.handler: Any = handler
        self.max_frame_length = max_frame_length
        self.supported_protocols: list[str] = list(supported_protocols)

    @classmethod
    def configured(
        cls,
        handler: Any = None,
        supported_protocols: Iterable[str] | None = None,
        origin_checker: Callable[[str | None, str], object] | None = None,
        support_legacy_versions: bool = False,
    ) -> Any:
        """Return an app for ``handler``; without a handler, return a decorator that makes the app.

        ``support_legacy_versions`` is ignored: no browser uses the drafts of RFC 6455 any more.
        """

        def made(handler: Any) -> WebSocketWSGI:
            app = cls(handler, supported_protocols=supported_protocols or ())
            app.origin_checker = origin_checker
            return app

        return made if handler is None else made(handler)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            websocket = self.accept(environ)
        except BadRequest as refused:
            # Other servers of Dhaga send the Connection header themselves.
            start_response(refused.status, [("Connection", "close")] if "eventlet.posthooks" in environ else [])
            return []
        if "eventlet.set_idle" in environ:
            environ["eventlet.set_idle"]()  # the server then ends without waiting for this client
        try:
            self.handler(websocket)
        except OSError as error:
            if error.errno not in CLIENT_GONE and not websocket.websocket_closed:
                raise
        finally:
            websocket.close()
        return []

    def accept(self, environ: dict[str, Any]) -> RFC6455WebSocket:
        """Claim the connection and answer the handshake. Raises: BadRequest, OSError."""
        if "websocket" not in environ.get("HTTP_UPGRADE", "").lower():
            raise BadRequest("Upgrade: websocket is missing")
        if "upgrade" not in environ.get("HTTP_CONNECTION", "").lower():
            raise BadRequest("Connection: Upgrade is missing")
        if environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13" or "HTTP_SEC_WEBSOCKET_KEY" not in environ:
            raise BadRequest("Sec-WebSocket-Version must be 13, and a Sec-WebSocket-Key be given")
        origin_checker = self.origin_checker
        if origin_checker is not None and not origin_checker(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN", "")):
            raise ForbiddenOrigin("the app refuses this origin")
        key = environ["HTTP_SEC_WEBSOCKET_KEY"].encode("latin-1")
        accept = base64.b64encode(hashlib.sha1(key + KEY_SUFFIX, usedforsecurity=False).digest()).decode()
        offered = [each.strip() for each in environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")]
        chosen = next((each for each in offered if each and each in self.supported_protocols), None)
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
    """Claim the connection. Returns: its socket, and the bytes received so far. Raises: BadRequest."""
    if "dhaga.upgrade" in environ:
        return environ["dhaga.upgrade"]()  # type: ignore[no-any-return]
    if hasattr(environ.get("eventlet.input"), "get_socket"):
        return environ["eventlet.input"].get_socket(), b""
    raise BadRequest("the server gives no connections away: serve this app by Dhaga's")


def send_head(sock: Any, lines: list[str]) -> None:
    """Send the head of a response. Raises: OSError."""
    sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
