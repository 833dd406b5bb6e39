"""The page: who is there and what happens, in a browser, from OS threads of its own that no scheduler holds up.

It is for the user of this machine alone. It listens on the loopback, every address has a secret token in it, no other
site's page can have it asked (the host must be a number, so that no name can be bound to it anew; a cancel is a POST of
JSON, which browsers let nobody else's page make), and it sends nothing, and asks for nothing, elsewhere.
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

from dhaga.kernel import originals

from .activities import Activity
from .answers import Answers
from .desks import Desk
from .helpers import resting

LONGEST = 16_384
"""Bytes of a request."""

PATIENCE = 10.0
"""Seconds for a request to come, and for an answer to go; browsers also connect without asking anything."""

REQUEST = re.compile(r"(GET|POST) (/[!-~]*) HTTP/1\.[01]")
TEMPLATE = Path(__file__).with_name("page.html")
POSTED = ("cancel",)
"""What changes something."""

WORDS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}


class Request(NamedTuple):
    """What a browser asks for."""

    method: str
    path: str
    token: str
    host: str
    kind: str  # of its body
    body: bytes


class Reply(NamedTuple):
    """What it gets."""

    status: int
    body: bytes
    kind: str = "application/json"
    policy: str = "default-src 'none'"


class Page(Activity):
    """A page under way; from ``serve()``. ``url`` has the token in it."""

    def __init__(self, listener: socket.socket, host: str, token: str) -> None:
        self.token = token
        self.port = int(listener.getsockname()[1])
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={token}"
        self.pid = os.getpid()
        self.answers = Answers()
        self.desk = Desk("page", listener, self.serve)
        pages.append(self)

    def __repr__(self) -> str:
        return f"<Page of process {self.pid} at port {self.port}>"

    def stop(self) -> None:
        """Serve no more. From: any thread."""
        if self in pages:
            pages.remove(self)
            self.desk.close()
            self.answers.close()

    def serve(self, guest: socket.socket) -> None:
        """Answer one request, and close."""
        guest.settimeout(PATIENCE)
        with resting():
            text = received(guest)
        if not text:
            return
        request = parsed(text)
        reply = refused(400, "this is no request that is served here") if request is None else self.reply(request)
        with resting():
            guest.sendall(written(reply))

    def reply(self, request: Request) -> Reply:
        if not trusted(request.host):
            return refused(403, "ask by the number of the host, 127.0.0.1, or localhost")
        if not hmac.compare_digest(request.token.encode(), self.token.encode()):
            return refused(403, "the token is not right: take the whole address that the program has told")
        if request.path == "/" and request.method == "GET":
            return document()
        return self.answer(request, request.path.removeprefix("/"))

    def answer(self, request: Request, ask: str) -> Reply:
        if request.method != "POST" or request.kind != "application/json":
            return refused(405, "questions are a POST of application/json")
        try:
            question = json.loads(request.body or b"{}")
        except ValueError:
            return refused(400, "a question is JSON")
        if not isinstance(question, dict):
            return refused(400, "a question is a JSON object")
        answer = self.answers.to({**question, "ask": ask})
        return Reply(400 if "error" in answer else 200, json.dumps(answer).encode())


def refused(status: int, why: str) -> Reply:
    return Reply(status, json.dumps({"error": why}).encode())


def document() -> Reply:
    """Return the page itself: its own script runs, and no other."""
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Reply(200, TEMPLATE.read_bytes().replace(b"NONCE", nonce.encode()), "text/html; charset=utf-8", policy)


def trusted(host: str) -> bool:
    """Tell whether a Host field is a number, or the one name that nobody can bind to another."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def received(guest: socket.socket) -> bytes:
    """Return a request as far as it has come; empty if that is too much, or too little."""
    text = b""
    while (needed := missing(text)) > 0:
        if len(text) + needed > LONGEST:
            return b""
        more = guest.recv(LONGEST)
        if not more:
            return b""
        text += more
    return text


LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,6}) *\r\n", re.IGNORECASE)


def missing(text: bytes) -> int:
    """Return how many bytes are still to come; 1 if that cannot be told yet."""
    head, end, body = text.partition(b"\r\n\r\n")
    if not end:
        return 1
    length = LENGTH.search(head + b"\r\n")
    return int(length[1]) - len(body) if length else 0


def parsed(text: bytes) -> Request | None:
    """Return what a request asks for; None if it is none of ours."""
    head, _, body = text.partition(b"\r\n\r\n")
    line, *rest = head.decode("latin-1").split("\r\n")
    found = REQUEST.fullmatch(line)
    fields = [(name.lower(), value.strip()) for name, colon, value in (each.partition(":") for each in rest) if colon]
    if found is None or [name for name, _ in fields].count("host") != 1:
        return None
    values = dict(fields)
    url = urlsplit(found[2])
    token = parse_qs(url.query).get("token", [""])[0]
    kind = values.get("content-type", "").partition(";")[0].strip().lower()
    return Request(found[1], url.path, token, values["host"], kind, body)


def written(reply: Reply) -> bytes:
    lines = [
        f"HTTP/1.1 {reply.status} {WORDS[reply.status]}",
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
"""Those of this process."""


def serve(port: int = 0, host: str = "127.0.0.1", token: str | None = None) -> Page:
    """Serve a page that shows the dhagas of this process and what they do; its ``url`` is to be opened in a browser.

    Whoever has the url can look into the process and cancel dhagas: it is plain HTTP, so leave it on the loopback (or
    tunnel to it by ssh). ``port``: 0 takes a free one; ``host``: a number; ``token``: a fresh secret by default.

    Parks: never. From: any thread. Ends by ``stop()``, or with the process; a forked child has none.
    Raises: OSError, ValueError.
    """
    if token is None:
        token = secrets.token_urlsafe(24)
    if not re.fullmatch(r"[A-Za-z0-9_-]{8,}", token):
        raise ValueError("a token has at least 8 letters, digits, - or _ (none given: a fresh secret)")
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
    """Leave the pages to the parent."""
    for page in pages:
        page.desk.abandon()
    pages.clear()


os.register_at_fork(after_in_child=after_fork_in_child)
