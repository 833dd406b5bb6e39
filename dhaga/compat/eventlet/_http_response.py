"""The response of ``eventlet.wsgi`` to one request. It adds eventlet's fields, and joins small pieces of the body."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ...http._server import response
from ...http._server.response import DATE, NO_BODY, SERVER, ServerFields, parse_length
from ...http._server.response_framing import BODILESS
from ._http_input import capitalized

capitalized_name = functools.lru_cache(1024)(capitalized)
"""The function ``capitalized`` with a cache, because an app repeats a few dozen names in all its responses."""


class Sink:
    """The sink that sends a response on the connection of an HttpProtocol."""

    server_fields = ServerFields("")

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.client_gone: bool = False

    def send(self, data: bytes) -> None:
        """Send bytes. Parks: while the client does not read. Raises: OSError."""
        try:
            self.protocol.wfile.write(data)
        except BaseException as error:
            self.client_gone = isinstance(error, OSError)
            # After a Timeout of the app, the client would read the next response as the rest of this send.
            self.protocol.close_connection = True
            raise

    def keeps_alive(self) -> bool:
        """Return False, so that ``head`` adds the fields of ``connection_fields`` to each response."""
        return False

    def close_after_response(self) -> None:
        """Close the connection after this response."""
        self.protocol.close_connection = True


class Response(response.Response):
    """A response that converts the output of a WSGI app to bytes. ``protocol``: the connection's HttpProtocol."""

    __slots__ = "app_connection", "app_lines", "environ", "protocol"

    sink: Any

    def __init__(self, protocol: Any, environ: dict[str, Any]) -> None:
        sink: Any = Sink(protocol)
        super().__init__(sink, protocol.command, min(protocol.request_version, protocol.protocol_version))
        self.protocol = protocol
        self.environ = environ

    # ---- called by the app

    def start(self, status: str, headers: Any, exc_info: Any = None, /) -> Callable[[Any], object]:
        """Set status and fields (``start_response``). Returns: ``write``. Raises: AppError; ``exc_info``'s error."""
        if self.status or self.sent:
            self.restart(exc_info)
        protocol = self.protocol
        self.length = None
        self.app_lines: list[str] = [f"{protocol.protocol_version} {status}"]
        names = set()
        for name, value in headers.items() if isinstance(headers, dict) else headers:
            lower, value = name.lower(), str(value)
            if lower == "transfer-encoding":
                continue  # PEP 3333: the server frames the body
            if lower == "content-length":
                self.length = parse_length(value, self.length)
            elif lower == "connection" and value.lower() == "close":
                protocol.close_connection = True
            names.add(lower)
            shown = capitalized_name(name) if protocol.capitalize_response_headers else name
            self.app_lines.append(f"{shown}: {value}")
        self.status = status
        self.app_connection: bool = "connection" in names
        self.app_fields = [SERVER, DATE] if "date" in names else ()
        return self.write

    def write(self, data: Any, /) -> None:
        """Send a part of the body now. Parks: while the client does not read. Raises: OSError, AppError."""
        super().write(data.encode("ascii") if isinstance(data, str) else bytes(data))

    # ---- sending

    def excess(self) -> None:
        self.protocol.close_connection = True
        self.protocol.server.log.error(f"the app gives more than its Content-Length, {self.length}")

    def lack(self) -> None:
        self.protocol.close_connection = True

    def head(self, length: int | None, whole: bool = False) -> bytes:
        """Return the head as bytes, and choose the framing of the body. Raises: ValueError."""
        if any("\r" in line or "\n" in line for line in self.app_lines):
            raise ValueError("CR or LF in a header field, or in the status")
        self.lines = "\r\n".join([*self.app_lines, ""])
        return super().head(length, whole)

    def connection_fields(self, keeps: bool) -> str:
        protocol = self.protocol
        body = self.environ["eventlet.input"]
        if body.client_waits and not body.at_end:
            protocol.close_connection = True  # only the client knows whether its body follows
        body.response_has_begun()
        has_chunks = self.remaining is None and self.version == "HTTP/1.1" and self.status[:3] not in NO_BODY
        # A response to HEAD has the same fields as a response to GET.
        fields = "Transfer-Encoding: chunked\r\n" if has_chunks and not self.chunked else ""
        if self.app_connection:
            return fields
        if protocol.close_connection:
            return fields + "Connection: close\r\n"
        if protocol.asked_to_keep:
            fields += "Connection: keep-alive\r\n"
            if protocol.server.keepalive is not True:
                fields += f"Keep-Alive: timeout={int(protocol.server.keepalive)}\r\n"
        return fields

    # ---- the app's result

    def send_all(self, result: Iterable[Any]) -> None:
        """Send the app's result, in parts of at least ``minimum_chunk_size`` bytes. Raises: the app's errors."""
        minimum = self.environ.get("eventlet.minimum_write_chunk_size", self.protocol.minimum_chunk_size)
        if not self.sent and self.status and self.length is None and hasattr(result, "__len__"):
            self.length = sum(map(len, result))
            if self.status[:3] not in BODILESS:
                self.app_lines.append(f"Content-Length: {self.length}")
        pieces: list[bytes] = []
        size = 0
        for data in result:
            if not data:
                continue
            pieces.append(data.encode("ascii") if isinstance(data, str) else data)
            size += len(data)
            if size >= minimum:
                self.write(b"".join(pieces))
                pieces, size = [], 0
        if pieces:
            self.write(b"".join(pieces))
        if self.sent or not self.protocol.is_handled():
            self.finish()

    def fail(self, status: str, text: bytes) -> None:
        """Send an error response for an app that failed; if a response has begun, only close the connection."""
        self.protocol.close_connection = True
        if self.sent or self.sink.client_gone:
            return
        self.status = ""
        self.start(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
        self.write(text)
