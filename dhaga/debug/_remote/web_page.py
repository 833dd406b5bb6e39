"""The debug page: the table of dhagas and the trace in a browser, served by OS threads.

The page is only for the user of this machine, and sends no data elsewhere. It listens on the loopback interface, and
its address contains a secret token. The Host field of a request must be an IP address or localhost, which protects
against DNS rebinding. A query is a POST with the content type JSON; browsers do not let pages of other sites send such
a request. The security policy allows the page only its own script. Each connection serves one request. A forked child
has no page.

Rejected: a Tornado server, which would not answer while its scheduler is blocked.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..._kernel import hooks, originals
from .._helper_thread import idle
from .._instrumentation import StopHandle
from .queries import QueryHandlers
from .thread_server import ThreadServer

MAX_REQUEST_BYTES = 16_384
"""Maximum size, in bytes, of a request's head and body together."""

SOCKET_SECONDS = 10.0
"""Maximum number of seconds to receive a request, and to send a reply. Some browsers connect but send no request."""

REQUEST = re.compile(r"(GET|POST) (/[!-~]*) HTTP/1\.[01]")
TEMPLATE = Path(__file__).with_name("web_page.html")
STATUS_PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


class PageRequest(NamedTuple):
    """One request of a browser."""

    method: str
    path: str
    token: str
    host: str
    kind: str  # content type of the body
    body: bytes


class PageReply(NamedTuple):
    """The reply to a request."""

    status: int
    body: bytes
    kind: str = "application/json"
    policy: str = "default-src 'none'"


class Page(StopHandle):
    """A served page, which ``serve()`` returns. Its ``url`` contains the token."""

    def __init__(self, listener: socket.socket, host: str, token: str) -> None:
        self._token = token
        self.port: int = int(listener.getsockname()[1])
        self.url: str = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={token}"
        self._pid = os.getpid()
        self._queries = QueryHandlers()
        self._server = ThreadServer("page", listener, self._serve)
        self._queries.start()
        pages.append(self)

    def __repr__(self) -> str:
        return f"<Page of process {self._pid} at port {self.port}>"

    def stop(self) -> None:
        """Stop serving. From: any thread."""
        if self in pages:
            pages.remove(self)
            self._server.close()
            self._queries.close()

    def _serve(self, connection: socket.socket) -> None:
        """Answer one request. The caller then closes the connection."""
        with idle():
            text = read_request(connection, originals.monotonic() + SOCKET_SECONDS)
        if not text:
            return
        request = parse_request(text)
        reply = error_reply(400, "the request is malformed") if request is None else self._reply(request)
        connection.settimeout(SOCKET_SECONDS)
        with idle():
            connection.sendall(serialize(reply))

    def _reply(self, request: PageRequest) -> PageReply:
        if not is_trusted_host(request.host):
            return error_reply(403, "use the number of the host, 127.0.0.1, or localhost in the address")
        if not hmac.compare_digest(request.token.encode(), self._token.encode()):
            return error_reply(403, "the token is wrong: use the whole address from the program")
        if request.path == "/" and request.method == "GET":
            return document()
        return self._answer(request, request.path.removeprefix("/"))

    def _answer(self, request: PageRequest, ask: str) -> PageReply:
        if request.method != "POST" or request.kind != "application/json":
            return error_reply(405, "a query is a POST of application/json")
        try:
            query = json.loads(request.body or b"{}")
        except (ValueError, RecursionError):
            return error_reply(400, "a query is JSON")
        if not isinstance(query, dict):
            return error_reply(400, "a query is a JSON object")
        answer = self._queries.answer({**query, "ask": ask})
        return PageReply(400 if "error" in answer else 200, json.dumps(answer).encode())


def error_reply(status: int, why: str) -> PageReply:
    return PageReply(status, json.dumps({"error": why}).encode())


def document() -> PageReply:
    """Return the page itself. Its security policy allows only its own script."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return PageReply(200, TEMPLATE.read_bytes().replace(b"NONCE", nonce.encode()), "text/html; charset=utf-8", policy)


def is_trusted_host(host: str) -> bool:
    """Return whether a Host field is an IP address or localhost, which no DNS record can rebind."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def read_request(connection: socket.socket, deadline: float) -> bytes:
    """Receive a request. Returns: b"" if the request is too large or incomplete. Raises: OSError."""
    text = b""
    while (needed := bytes_missing(text)) > 0:
        if len(text) + needed > MAX_REQUEST_BYTES:
            return b""
        connection.settimeout(max(0.001, deadline - originals.monotonic()))
        more = connection.recv(MAX_REQUEST_BYTES)
        if not more:
            return b""
        text += more
    return text


LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,6}) *\r\n", re.IGNORECASE)


def bytes_missing(text: bytes) -> int:
    """Return the number of bytes that are missing from the request; 1 while the request's length is unknown."""
    head, end, body = text.partition(b"\r\n\r\n")
    if not end:
        return 1
    length = LENGTH.search(head + b"\r\n")
    return int(length[1]) - len(body) if length else 0


def parse_request(text: bytes) -> PageRequest | None:
    """Parse a request. Returns: None if it is malformed or does not have exactly one Host."""
    head, _, body = text.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    found = REQUEST.fullmatch(line)
    fields = [(name.lower(), value.strip()) for name, colon, value in (each.partition(":") for each in rest) if colon]
    if found is None or [name for name, _ in fields].count("host") != 1:
        return None
    values = dict(fields)
    # urlsplit() would parse the part after // as a host, and might raise ValueError.
    path, _, query = found[2].partition("?")
    token = parse_qs(query).get("token", [""])[0]
    kind = values.get("content-type", "").partition(";")[0].strip().lower()
    return PageRequest(found[1], path, token, values["host"], kind, body)


def serialize(reply: PageReply) -> bytes:
    """Return a reply as bytes."""
    lines = [
        f"HTTP/1.1 {reply.status} {STATUS_PHRASES[reply.status]}",
        f"Content-Type: {reply.kind}",
        f"Content-Length: {len(reply.body)}",
        f"Content-Security-Policy: {reply.policy}",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Cross-Origin-Resource-Policy: same-origin",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + reply.body


pages: list[Page] = []
"""All pages of this process."""


def serve(port: int = 0, host: str = "127.0.0.1", token: str | None = None) -> Page:
    """Serve a page that shows the dhagas of this process. Open its ``url`` in a browser.

    Anyone who knows the URL can inspect the process and cancel dhagas, over plain HTTP. Leave the page on the loopback
    interface, and reach it from other machines through an SSH tunnel. ``port``: 0 selects a free port. ``host``: an IP
    address. ``token``: by default a fresh secret. ``stop()`` or the end of the process closes the page; a forked child
    has no page.
    Parks: never. From: any thread. Raises: OSError, ValueError.
    """
    if token is None:
        token = secrets.token_urlsafe(24)
    if not re.fullmatch(r"[A-Za-z0-9_-]{8,}", token):
        raise ValueError("a token has at least 8 letters, digits, - or _ (without one, a fresh secret is used)")
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    listener = originals.Socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return Page(listener, host, token)


def after_fork_in_child() -> None:
    """Close the child's copies of the pages. The parent's pages continue."""
    for page in pages:
        page._server.abandon_in_child()
    pages.clear()


hooks.in_forked_child.append(after_fork_in_child)
