"""``gevent.pywsgi.WSGIHandler``, which answers the requests of one connection. Subclasses may override its methods.

This code runs for subclasses, such as gevent-websocket's, and for a WSGIServer with its own ``environ_class``. For any
other WSGIServer, ``dhaga.http.wsgi`` answers. Both parse requests with ``request_parser``, and refuse the same
requests, except that this code accepts requests without Host.
"""

from __future__ import annotations

import http.client
import time
import traceback
from contextvars import copy_context
from datetime import datetime
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote_to_bytes

from greenlet import getcurrent

from ..._kernel.errors import Cancelled
from ...http._server.access_log import escape
from ...http._server.request_file import FileHead, environ_key
from ...http._server.response_framing import LAST_CHUNK, Framing
from ...http.limits import Limits, Refusal
from ._wsgi_input import MAX_REQUEST_LINE, Input

__all__ = ["WSGIHandler"]

LIMITS = Limits()
NO_BODY = (204, 304)


def error_response(status: str, body: str) -> tuple[str, bytes]:
    """Return the status and the bytes of a response that closes the connection."""
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-type: text/plain\r\nContent-length: {len(body)}\r\n\r\n"
    return status, (head + body).encode("latin-1")


class HandlerFraming(Framing):
    """The framing of a handler's response."""

    def __init__(self, handler: WSGIHandler) -> None:
        super().__init__(handler.command)
        self.handler = handler

    def excess(self) -> None:
        handler = self.handler
        handler.log_error("the application gives more than its Content-Length, %s", handler.provided_content_length)
        handler.close_connection = True


class WSGIHandler:
    """A handler that answers a connection's requests with the server's application. Source: ``gevent.pywsgi``."""

    protocol_version = "HTTP/1.1"
    ApplicationError: type[Exception] = AssertionError
    """The error that is raised if the application violates WSGI."""

    def __init__(self, sock: Any, address: Any, server: Any, rfile: Any = None) -> None:
        self.socket: Any = sock
        self.client_address = address
        self.server = server
        self.rfile: Any = sock.makefile("rb", -1) if rfile is None else rfile
        self.requestline: str | None = None
        self.close_connection: bool = False
        self.time_start: float = 0.0
        self.time_finish: float = 0.0
        self._forget_response()

    def _forget_response(self) -> None:
        self.status: Any = None
        self.code: int = 0
        self.response_headers: list[tuple[str, str]] = []
        self.provided_date: Any = None
        self.provided_content_length: Any = None
        self.framing: Framing = Framing("")
        self.response_length: int = 0
        self.headers_sent: bool = False
        self.response_use_chunked: bool = False
        self.connection_upgraded: bool = False
        self.result: Any = None
        self.time_finish = 0.0

    # ---- the connection

    def handle(self) -> None:
        """Answer the connection's requests. Parks: until the connection closes."""
        try:
            while self.socket is not None:
                self.time_start = time.time()
                self._forget_response()
                before = copy_context()
                result = self.handle_one_request()
                getcurrent().gr_context = before  # context variables set in a request must not reach the next
                if result is None:
                    break
                if result is True:
                    continue
                self.status, response = result
                self.socket.sendall(response)
                self.time_finish = time.time()
                self.log_request()
                break
        except OSError as error:
            self.log_error("%s: %s", type(error).__name__, error)
        finally:
            self._close()

    def _close(self) -> None:
        sock, self.socket = self.socket, None
        rfile, self.rfile = self.rfile, None
        self.__dict__.pop("wsgi_input", None)
        if rfile is not None:
            rfile.close()
        if sock is not None:
            sock.close()

    def handle_one_request(self) -> Any:
        """Read and answer a request. Returns: True to continue, None to close, or status and bytes of a last answer."""
        if self.rfile is None or self.rfile.closed:
            return None
        try:
            self.requestline = self.read_requestline()
        except OSError:
            return None
        if not self.requestline:
            return None
        if isinstance(self.requestline, bytes):
            self.requestline = self.requestline.decode("latin-1")
        if len(self.requestline) >= MAX_REQUEST_LINE:
            return error_response("414 URI Too Long", "")
        try:
            if not self.read_request(self.requestline):
                return error_response("400 Bad Request", "")
        except Refusal as refusal:
            self.log_error("%s", refusal)
            return error_response(refusal.status, str(refusal))
        self.environ: Any = self.get_environ()
        self.application: Any = self.server.application
        self.handle_one_response()
        if self.close_connection or self.rfile is None:
            return None
        try:
            self.wsgi_input.discard()
        except OSError as error:
            self.log_error("closed, because the rest of the request cannot be read: %s", error)
            return None
        return True

    # ---- the request

    def read_requestline(self) -> Any:
        """Return the first line of a request; empty if the connection is closed. Parks: until the line arrives."""
        line = self.rfile.readline(MAX_REQUEST_LINE)
        if line == b"\r\n":  # RFC 9112, 2.2: an empty line before a request is ignored
            line = self.rfile.readline(MAX_REQUEST_LINE)
        return line

    def read_request(self, raw_requestline: str) -> bool:
        """Read and parse the rest of the request's head. Returns: True; an override returns False to refuse a request.

        Raises: Refusal for the first violation of HTTP/1.1.
        """
        line = raw_requestline if "\n" in raw_requestline else f"{raw_requestline}\r\n"
        head = FileHead(self.rfile, line.encode("latin-1"), LIMITS)
        self.command, self.path, self.request_version = line.split()
        self.headers = http.client.HTTPMessage()
        for name, value in head.fields:
            self.headers[name] = value
        self.chunked_input: bool = head.length is None
        self.content_length: int | None = head.length if "Content-Length" in self.headers else None
        self.expects_continue: bool = head.expects_continue
        self.close_connection = not head.persistent
        options = self.headers.get("Connection", "").lower().split(",")
        self.connection_upgraded = (
            "upgrade" in map(str.strip, options) or self.headers.get("Upgrade", "").lower() == "websocket"
        )
        return True

    def get_environ(self) -> Any:
        """Return the environ of the current request."""
        environ = self.server.get_environ()
        path, _, query = self.path.partition("?")
        if path.startswith(("http://", "https://")):  # RFC 9112, 3.2.2: the absolute form
            path = "/" + path.partition("//")[2].partition("/")[2]
        environ["REQUEST_METHOD"] = self.command
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "")
        environ["PATH_INFO"] = unquote_to_bytes(path.encode("latin-1")).decode("latin-1")
        environ["QUERY_STRING"] = query
        environ["REQUEST_URI"] = environ["RAW_URI"] = self.path
        environ["SERVER_PROTOCOL"] = self.request_version
        environ["GATEWAY_INTERFACE"] = "CGI/1.1"
        if isinstance(self.client_address, tuple):
            environ["REMOTE_ADDR"] = str(self.client_address[0])
            environ["REMOTE_PORT"] = str(self.client_address[1])
        for name, value in self._environ_headers():
            if name in environ:
                environ[name] += ("; " if "COOKIE" in name else ",") + value
            else:
                environ[name] = value
        waiting = self.socket if self.expects_continue else None
        self.wsgi_input: Input = Input(self.rfile, self.content_length, waiting, self.chunked_input)
        environ["wsgi.input"] = self.wsgi_input
        environ["wsgi.input_terminated"] = not self.connection_upgraded
        return environ

    def _environ_headers(self) -> Any:
        for name, value in self.headers.items():
            key = environ_key(name)
            if key is not None:
                yield key, value

    # ---- the response

    def handle_one_response(self) -> None:
        """Call the application, send its result, and write a line to the log."""
        self.time_start = time.time()
        self.status = None
        self.headers_sent = False
        try:
            try:
                self.run_application()
            finally:
                close = getattr(self.result, "close", None)
                if close is not None:
                    close()
                self.result = None
        except Refusal as refusal:
            self._handle_client_error(refusal)
        except OSError as error:
            self.close_connection = True
            if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                self.log_error("the client is gone: %s", error)
            else:
                self.handle_error(type(error), error, error.__traceback__)
        except Cancelled:
            self.close_connection = True
            raise
        except BaseException as error:
            self.handle_error(type(error), error, error.__traceback__)
        finally:
            self.time_finish = time.time()
            self.log_request()

    def run_application(self) -> None:
        """Call the application and send its result."""
        self.result = self.application(self.environ, self.start_response)
        self.process_result()

    def process_result(self) -> None:
        """Send the parts of the application's result."""
        for data in self.result or ():
            if data:
                self.write(data)
        if not self.headers_sent:
            if self.status is None:
                # As in gevent, no error is sent: an application that took over the connection has answered by itself.
                self.log_error("the application did not call start_response(): the connection closes")
                self.close_connection = True
                return
            self.write(b"")
        if self.response_use_chunked:
            self.socket.sendall(LAST_CHUNK)
        if self.framing.lacks():
            self.close_connection = True  # the client still waits for the rest of the body

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        """Set status and headers. Returns: the method ``write``. Raises: ApplicationError, ValueError, UnicodeError."""
        if exc_info:
            try:
                if self.headers_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        pairs = [(native(name, "name"), native(value, "value")) for name, value in headers]
        # _settle_framing() decides about Transfer-Encoding.
        checked = [(name, value) for name, value in pairs if name.lower() != "transfer-encoding"]
        check_line(status, "status")
        code = int(status[:3])
        provided = {name.lower(): value for name, value in checked}
        length = provided.get("content-length")
        if code in NO_BODY and length is not None and length != "0":
            raise self.ApplicationError(
                f"Invalid Content-Length for {code} response: {length!r} (must be absent or zero)"
            )
        if length is not None and not (length.isascii() and length.isdigit()):
            raise self.ApplicationError(f"Invalid Content-Length: {length!r}")
        self.status, self.code, self.response_headers = status, code, checked
        self.provided_date, self.provided_content_length = provided.get("date"), length
        self.provided_connection: str | None = provided.get("connection")
        return self.write

    def write(self, data: Any) -> None:
        """Send a part of the body; the first call also sends the headers. Parks: while the client does not read."""
        if self.status is None:
            raise self.ApplicationError("The application did not call start_response()")
        if isinstance(data, str):
            data = data.encode("latin-1")
        if data and self.code in NO_BODY:
            raise self.ApplicationError(f"The {self.code} response must have no body")
        head = b""
        if not self.headers_sent:
            self.finalize_headers()
            lines = "".join(f"{name}: {value}\r\n" for name, value in self.response_headers)
            head = f"HTTP/1.1 {self.status}\r\n{lines}\r\n".encode("latin-1")
            self.headers_sent = True
        towrite = head + (self.framing.frame(bytes(data)) if data else b"")
        self.response_length = self.framing.size
        if towrite:
            try:
                self.socket.sendall(towrite)
            except BaseException:  # for example, a Timeout of the application
                self.close_connection = True  # the client would read the next response as the rest of this part
                raise

    def finalize_headers(self) -> None:
        """Add missing headers: Date, Content-Length, Transfer-Encoding and Connection."""
        if self.provided_date is None:
            self.response_headers.append(("Date", formatdate(usegmt=True)))
        if self.provided_connection is not None and "close" in self.provided_connection.lower():
            self.close_connection = True
        self._settle_framing()
        if self.code == 101:
            self.close_connection = True
        elif self.provided_connection is None:
            if self.close_connection:
                self.response_headers.append(("Connection", "close"))
            elif self.request_version == "HTTP/1.0":
                self.response_headers.append(("Connection", "keep-alive"))

    def _settle_framing(self) -> None:
        framing = self.framing = HandlerFraming(self)
        if self.code == 101:
            return
        if self.provided_content_length is None and self.code not in NO_BODY and isinstance(self.result, (list, tuple)):
            self.provided_content_length = str(sum(map(len, self.result)))
            self.response_headers.append(("Content-Length", self.provided_content_length))
        length = self.provided_content_length
        if framing.settle(self.status, None if length is None else int(length), self.request_version):
            self.close_connection = True
        self.response_use_chunked = framing.chunked
        if framing.chunked:
            self.response_headers.append(("Transfer-Encoding", "chunked"))

    # ---- errors and the log

    def handle_error(self, kind: Any, value: Any, tb: Any) -> None:
        """Report an error of the application, and answer with status 500 if no headers were sent yet."""
        self.close_connection = True
        from .hub import get_hub

        context = self.environ  # a report of the error must not show the environ's values
        if not isinstance(context, self.server.secure_environ_class):
            context = self.server.secure_environ_class(context)
        try:
            get_hub().handle_error(context, kind, value, tb)
        finally:
            self._send_error_response_if_possible("500 Internal Server Error")

    def _handle_client_error(self, refusal: Refusal) -> None:
        self.close_connection = True
        self.log_error("%s", refusal)
        self._send_error_response_if_possible(refusal.status)

    def _send_error_response_if_possible(self, status: str) -> None:
        self.response_use_chunked = False
        if not self.headers_sent and self.socket is not None:
            self.status, response = error_response(status, "" if self.command == "HEAD" else status[4:])
            self.code, self.headers_sent = int(status[:3]), True
            try:
                self.socket.sendall(response)
            except OSError as error:
                self.log_error("the client is gone: %s", error)

    def _print_unexpected_exc(self) -> None:
        """Write the current error with its traceback to the error log."""
        self.log_error("%s", traceback.format_exc())

    def log_error(self, msg: str, *args: Any) -> None:
        """Write a line about this connection to the server's error log."""
        try:
            message = msg % args if args else msg
        except TypeError:
            message = f"{msg!r} {args!r}"
        when = datetime.now().isoformat(" ", "seconds")
        self.server.error_log.write(f"[{when}] {self.client_address}: {message}\n")

    def log_request(self) -> None:
        """Write a line about this request to the server's log."""
        self.server.log.write(self.format_request() + "\n")

    def format_request(self) -> str:
        """Return the log line of this request: the common log format, followed by the response time in seconds."""
        address = self.client_address
        client = address[0] if isinstance(address, tuple) else address or "-"
        when = time.strftime("%d/%b/%Y %H:%M:%S", time.localtime(self.time_finish or self.time_start))
        seconds = f"{self.time_finish - self.time_start:.6f}" if self.time_finish else "-"
        status = str(self.status or "-").partition(" ")[0]
        request = escape((self.requestline or "").rstrip())
        return f'{client} - - [{when}] "{request}" {status} {self.response_length or "-"} {seconds}'


def native(text: Any, what: str) -> str:
    """Return a header's name or value if it can be sent as latin-1. Raises: UnicodeError, ValueError."""
    if not isinstance(text, str):
        raise UnicodeError(f"The header must be a native string: {text!r}")
    text.encode("latin-1")
    check_line(text, f"header {what}")
    return text


def check_line(text: str, what: str) -> None:
    if "\r" in text or "\n" in text:
        raise ValueError(f"carriage return or newline in {what}")
