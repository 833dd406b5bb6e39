"""``gevent.pywsgi.WSGIHandler``: answers the requests of one connection, by methods that a subclass may override.

A WSGIServer whose ``handler_class`` is WSGIHandler itself parses requests in C instead (``dhaga.http.wsgi``); this one
runs for subclasses: those of programs, and of packages as gevent-websocket.
"""

from __future__ import annotations

import http.client
import re
import time
import traceback
from datetime import datetime
from email.errors import FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote_to_bytes

from ._wsgi_input import MAX_REQUEST_LINE, Input, InvalidClientData

__all__ = ["WSGIHandler"]

METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VERSION = re.compile(r"HTTP/1\.([01])")
NO_BODY = (204, 304)
HEADER_DEFECTS = (FirstHeaderLineIsContinuationDefect, MissingHeaderBodySeparatorDefect)
"""Those of a message's headers; others are of a body, which is not there yet."""


def error_response(code: int, body: str) -> tuple[str, bytes]:
    """Return status and bytes of an answer after which the connection is closed."""
    status = f"{code} {http.client.responses[code]}"
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-type: text/plain\r\nContent-length: {len(body)}\r\n\r\n"
    return status, (head + body).encode("latin-1")


class WSGIHandler:
    """Reads requests from a connection and answers them by the server's application. Source: ``gevent.pywsgi``."""

    protocol_version = "HTTP/1.1"
    ApplicationError: type[Exception] = AssertionError
    """Raised for what the application must not do."""

    def __init__(self, sock: Any, address: Any, server: Any, rfile: Any = None) -> None:
        self.socket = sock
        self.client_address = address
        self.server = server
        self.rfile = sock.makefile("rb", -1) if rfile is None else rfile
        self.requestline: str | None = None
        self.close_connection = False
        self.time_start = self.time_finish = 0.0
        self._forget_response()

    def _forget_response(self) -> None:
        self.status: Any = None
        self.code = 0
        self.response_headers: list[tuple[str, str]] = []
        self.provided_date: Any = None
        self.provided_content_length: Any = None
        self.response_length = 0
        self.headers_sent = False
        self.response_use_chunked = False
        self.connection_upgraded = False
        self.result: Any = None
        self.time_finish = 0.0

    # ---- the connection

    def handle(self) -> None:
        """Answer requests. Parks: until the connection closes."""
        try:
            while self.socket is not None:
                self.time_start = time.time()
                self._forget_response()
                result = self.handle_one_request()
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
        """Read a request and answer it. Returns: True to go on; None to close; or status and bytes to send before."""
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
            return error_response(414, "")
        try:
            if not self.read_request(self.requestline):
                return error_response(400, "")
        except InvalidClientData as error:
            self.log_error("%s", error)
            return error_response(400, str(error))
        self.environ = self.get_environ()
        self.application = self.server.application
        self.handle_one_response()
        if self.close_connection or self.rfile is None:
            return None
        try:
            self.wsgi_input.discard()
        except OSError as error:
            self.log_error("closed, as the rest of the request cannot be read: %s", error)
            return None
        return True

    # ---- the request

    def read_requestline(self) -> Any:
        """Return the first line of a request; nothing: the connection is closed. Parks: until it is there."""
        line = self.rfile.readline(MAX_REQUEST_LINE)
        if line in (b"\r\n", b"\n"):  # RFC 9112, 2.2: an empty line before a request is ignored
            line = self.rfile.readline(MAX_REQUEST_LINE)
        return line

    def read_request(self, raw_requestline: str) -> bool:
        """Take the request line apart and read the headers. Returns: False, after a line in the log, if it is none."""
        words = raw_requestline.rstrip().split()
        version = VERSION.fullmatch(words[-1]) if len(words) == 3 else None
        if version is None or not METHOD.fullmatch(words[0]):
            self.log_error("Invalid http version or request line: %r", raw_requestline)
            return False
        self.command, self.path, self.request_version = words
        self.headers = self._read_headers()
        self.content_length = self._get_content_length()
        connection = [word.strip().lower() for word in self.headers.get("Connection", "").split(",")]
        self.close_connection = "close" in connection or (version[1] == "0" and "keep-alive" not in connection)
        self.connection_upgraded = "upgrade" in connection or self.headers.get("Upgrade", "").lower() == "websocket"
        return True

    def _read_headers(self) -> Any:
        try:
            headers = http.client.parse_headers(self.rfile)
        except http.client.HTTPException as error:
            raise InvalidClientData(str(error)) from None
        if any(isinstance(defect, HEADER_DEFECTS) for defect in headers.defects):
            raise InvalidClientData("a line of the headers is none")
        return headers

    def _get_content_length(self) -> int | None:
        self.chunked_input = False
        coding = self.headers.get("Transfer-Encoding")
        if coding is not None:
            if coding.strip().lower() != "chunked":
                raise InvalidClientData(f"cannot decode Transfer-Encoding {coding!r}")
            self.chunked_input = True
        lengths = {length.strip() for length in self.headers.get_all("Content-Length", ())}
        if not lengths or self.chunked_input:
            return None
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit()):
            raise InvalidClientData(f"invalid Content-Length: {length!r}")
        return int(length)

    def get_environ(self) -> Any:
        """Return the environ of this request."""
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
        waits = environ.get("HTTP_EXPECT", "").lower() == "100-continue" and self.request_version == "HTTP/1.1"
        self.wsgi_input = Input(self.rfile, self.content_length, self.socket if waits else None, self.chunked_input)
        environ["wsgi.input"] = self.wsgi_input
        environ["wsgi.input_terminated"] = not self.connection_upgraded
        return environ

    def _environ_headers(self) -> Any:
        for name, value in self.headers.items():
            if "_" in name:  # it would hide one with a hyphen, which a proxy may have set
                continue
            key = name.upper().replace("-", "_")
            key = key if key in ("CONTENT_LENGTH", "CONTENT_TYPE") else f"HTTP_{key}"
            yield key, re.sub(r"\r?\n[ \t]+", " ", value).strip()

    # ---- the response

    def handle_one_response(self) -> None:
        """Call the application, send what it returns, and write a line into the log."""
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
        except InvalidClientData as error:
            self._handle_client_error(error)
        except OSError as error:
            self.close_connection = True
            if isinstance(error, (BrokenPipeError, ConnectionError)):
                self.log_error("the client is gone: %s", error)
            else:
                self.handle_error(type(error), error, error.__traceback__)
        except Exception as error:
            self.handle_error(type(error), error, error.__traceback__)
        finally:
            self.time_finish = time.time()
            self.log_request()

    def run_application(self) -> None:
        """Call the application and send its result."""
        self.result = self.application(self.environ, self.start_response)
        self.process_result()

    def process_result(self) -> None:
        """Send the parts of the result."""
        for data in self.result or ():
            if data:
                self.write(data)
        if not self.headers_sent:
            if self.status is None:
                self.log_error("the application did not call start_response()")
                self.close_connection = True
                self._send_error_response_if_possible(500)
                return
            self.write(b"")
        if self.response_use_chunked:
            self.socket.sendall(b"0\r\n\r\n")

    def start_response(self, status: str, headers: Any, exc_info: Any = None) -> Any:
        """Take status and headers. Returns: ``write``. Raises: ApplicationError, ValueError or UnicodeError."""
        if exc_info:
            try:
                if self.headers_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        checked = [(native(name, "name"), native(value, "value")) for name, value in headers]
        check_line(status, "status")
        code = int(status[:3])
        provided = {name.lower(): value for name, value in checked}
        length = provided.get("content-length")
        if code in NO_BODY and length is not None and length != "0":
            raise self.ApplicationError(
                f"Invalid Content-Length for {code} response: {length!r} (must be absent or zero)"
            )
        self.status, self.code, self.response_headers = status, code, checked
        self.provided_date, self.provided_content_length = provided.get("date"), length
        self.provided_connection = provided.get("connection")
        return self.write

    def write(self, data: Any) -> None:
        """Send a part of the body, with the headers if it is the first. Parks: while the client takes none."""
        if self.status is None:
            raise self.ApplicationError("The application did not call start_response()")
        if isinstance(data, str):
            data = data.encode("latin-1")
        if data and self.code in NO_BODY:
            raise self.ApplicationError(f"The {self.code} response must have no body")
        towrite = bytearray()
        if not self.headers_sent:
            self.finalize_headers()
            lines = "".join(f"{name}: {value}\r\n" for name, value in self.response_headers)
            towrite += f"HTTP/1.1 {self.status}\r\n{lines}\r\n".encode("latin-1")
            self.headers_sent = True
        if data:
            self.response_length += len(data)
            sends = self.command != "HEAD"
            if sends and self.response_use_chunked:
                towrite += b"%x\r\n%b\r\n" % (len(data), bytes(data))
            elif sends:
                towrite += data
        if towrite:
            self.socket.sendall(towrite)

    def finalize_headers(self) -> None:
        """Add the headers that the application has not given: of the date, the length and the connection."""
        if self.provided_date is None:
            self.response_headers.append(("Date", formatdate(usegmt=True)))
        if self.provided_connection is not None and "close" in self.provided_connection.lower():
            self.close_connection = True
        if self.code not in NO_BODY and self.code != 101 and self.provided_content_length is None:
            self._say_length()
        if self.code == 101:
            self.close_connection = True
        elif self.provided_connection is None:
            if self.close_connection:
                self.response_headers.append(("Connection", "close"))
            elif self.request_version == "HTTP/1.0":
                self.response_headers.append(("Connection", "keep-alive"))

    def _say_length(self) -> None:
        if isinstance(self.result, (list, tuple)):
            self.provided_content_length = str(sum(len(part) for part in self.result))
            self.response_headers.append(("Content-Length", self.provided_content_length))
        elif self.command == "HEAD":
            pass
        elif self.request_version == "HTTP/1.1":
            self.response_use_chunked = True
            self.response_headers.append(("Transfer-Encoding", "chunked"))
        else:
            self.close_connection = True  # its end is the end of the body

    # ---- errors and the log

    def handle_error(self, kind: Any, value: Any, tb: Any) -> None:
        """Report an error of the application, and answer with 500 if nothing is sent yet."""
        self.close_connection = True
        from .hub import get_hub

        context = self.environ  # a report of the error must not show what it holds
        if not isinstance(context, self.server.secure_environ_class):
            context = self.server.secure_environ_class(context)
        try:
            get_hub().handle_error(context, kind, value, tb)
        finally:
            self._send_error_response_if_possible(500)

    def _handle_client_error(self, error: BaseException) -> None:
        self.close_connection = True
        self.log_error("%s", error)
        self._send_error_response_if_possible(400)

    def _send_error_response_if_possible(self, code: int) -> None:
        self.response_use_chunked = False
        if not self.headers_sent and self.socket is not None:
            self.status, response = error_response(code, http.client.responses[code])
            self.code, self.headers_sent = code, True
            try:
                self.socket.sendall(response)
            except OSError as error:
                self.log_error("the client is gone: %s", error)

    def _print_unexpected_exc(self) -> None:
        """Print the error that is being handled."""
        self.log_error("%s", traceback.format_exc())

    def log_error(self, msg: str, *args: Any) -> None:
        """Write a line about this connection into the server's error log."""
        log = self.server.error_log
        if log is None:
            return
        try:
            message = msg % args if args else msg
        except TypeError:
            message = f"{msg!r} {args!r}"
        when = datetime.now().isoformat(" ", "seconds")
        log.write(f"[{when}] {self.client_address}: {message}\n")

    def log_request(self) -> None:
        """Write a line about this request into the server's log."""
        if self.server.log is not None:
            self.server.log.write(self.format_request() + "\n")

    def format_request(self) -> str:
        """Return that line: in the common format, and the seconds that the answer took."""
        address = self.client_address
        client = address[0] if isinstance(address, tuple) else address or "-"
        when = time.strftime("%d/%b/%Y %H:%M:%S", time.localtime(self.time_finish or self.time_start))
        seconds = f"{self.time_finish - self.time_start:.6f}" if self.time_finish else "-"
        status = str(self.status or "-").partition(" ")[0]
        request = (self.requestline or "").rstrip()
        return f'{client} - - [{when}] "{request}" {status} {self.response_length or "-"} {seconds}'


def native(text: Any, what: str) -> str:
    """Return a header's name or value, which goes out in latin-1. Raises: UnicodeError, ValueError."""
    if not isinstance(text, str):
        raise UnicodeError(f"The header must be a native string: {text!r}")
    text.encode("latin-1")
    check_line(text, f"header {what}")
    return text


def check_line(text: str, what: str) -> None:
    if "\r" in text or "\n" in text:
        raise ValueError(f"carriage return or newline in {what}")
