"""The HTTP endpoints, as a WSGI app: the page, its figures, publishing, and the three ways to wait.

    GET  /                                   the page
    GET  /status                             figures, as JSON
    POST /topics/NAME                        publish the body; 200 {"id": …}, 503 when it is not taken: try again
    GET  /poll?topic=…&after=ID&wait=25      {"messages": […], "last": ID, "gap": …}; without `after` at once
    GET  /events?topic=…&after=ID            server-sent events
    GET  /socket                             WebSocket

A token comes as `Authorization: Bearer TOKEN`, or as ?token=TOKEN where a browser cannot send that. Without tokens a
browser is the guard: the Host must be a number or localhost, so that no DNS name can be rebound to this server, and an
Origin must be this server's own, so that no page of another site listens or publishes.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from .messages import Id, Refused
from .service import Service
from .sse import serve_events

PAGE: Final = Path(__file__).with_name("page.html")
LONGEST_WAIT: Final = 55.0
"""Seconds: proxies end a request after 60."""

MOST: Final = 1000
"""Messages in one answer to a poll; the next poll brings the rest."""

Environ = dict[str, Any]


class Answer(NamedTuple):
    """A response."""

    status: int
    type: str
    body: bytes


TAKEN: Final = Answer(0, "", b"")
"""In place of an answer: the connection was taken over, and served to its end."""


class Web:
    """The WSGI app of a service; `details()` gives what the figures tell beside those of the service."""

    def __init__(self, service: Service, details: Callable[[], dict[str, Any]] = dict) -> None:
        self.service = service
        self.details = details
        self.page = PAGE.read_bytes()

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request, or serve a client until it leaves."""
        try:
            answer = self.answer(environ)
        except Refused as refused:
            answer = as_text(refused.status, refused.reason)
        if answer is TAKEN:
            return []
        headers = [
            ("Content-Type", answer.type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
        ]
        if answer.status == HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers)
        return [answer.body]

    def answer(self, environ: Environ) -> Answer:
        """Find the endpoint. Raises: Refused."""
        if not self.service.tokens.names:
            check_site(environ)
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == "/" and method in ("GET", "HEAD"):
            return Answer(200, "text/html; charset=utf-8", self.page)
        query = parse_qs(environ.get("QUERY_STRING", ""))
        name = self.service.tokens.holder(token_of(environ, query))
        if path.startswith("/topics/"):
            return self.publish(method, environ, path.removeprefix("/topics/"))
        endpoint = self.endpoints.get(path)
        if endpoint is None:
            raise Refused(404, "there is /, /status, /topics/NAME, /poll, /events and /socket")
        if method != "GET":
            raise Refused(405, f"{path} is to GET")
        return endpoint(self, environ, query, name)

    def publish(self, method: str, environ: Environ, topic: str) -> Answer:
        if method != "POST":
            raise Refused(405, "POST a message to a topic, or GET /events?topic=NAME to wait for them")
        limit = self.service.limits.message
        body = environ["wsgi.input"].read(limit + 1)
        return as_json({"id": str(self.service.publish(topic, body))})

    def status(self, environ: Environ, query: dict[str, list[str]], name: str) -> Answer:
        return as_json({**self.service.status(), **self.details()})

    def poll(self, environ: Environ, query: dict[str, list[str]], name: str) -> Answer:
        topics, after = self.topics(query), after_of(environ, query)
        if after is None:
            return as_json({"messages": [], "last": str(self.service.broker.last), "gap": False})
        missed = self.service.poll(topics, after, wait_of(query), environ["dhaga.disconnected"])
        first = missed.messages[:MOST]
        last = first[-1].id if len(first) < len(missed.messages) else missed.last
        body = b'{"messages": [%s], "last": "%s", "gap": %s}' % (
            b", ".join(message.json for message in first),
            str(last).encode(),
            json.dumps(missed.gap).encode(),
        )
        return Answer(200, "application/json", body)

    def events(self, environ: Environ, query: dict[str, list[str]], name: str) -> Answer:
        topics, after = self.topics(query), after_of(environ, query)
        sock, _ = taken_over(environ)
        serve_events(self.service, sock, name, topics, after)
        return TAKEN

    def socket(self, environ: Environ, query: dict[str, list[str]], name: str) -> Answer:
        try:
            from .websocket import accept, serve_frames
        except ModuleNotFoundError as error:
            raise Refused(501, f"WebSocket needs the package {error.name}: install it, or use /events") from None
        answer = accept(environ)
        sock, rest = taken_over(environ)
        serve_frames(self.service, sock, rest, answer, name)
        return TAKEN

    endpoints: Final[dict[str, Callable[..., Answer]]] = {
        "/status": status,
        "/poll": poll,
        "/events": events,
        "/socket": socket,
    }

    def topics(self, query: dict[str, list[str]]) -> list[str]:
        topics = list(dict.fromkeys(query.get("topic", [])))
        limit = self.service.limits.subscriptions
        if not topics or len(topics) > limit:
            raise Refused(400, f"say which topics, as ?topic=a&topic=b: one to {limit}")
        return topics


def check_site(environ: Environ) -> None:
    """Refuse what a page of another site makes a browser send. Raises: Refused."""
    host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
    if not is_number_or_localhost(host):
        raise Refused(403, "without --token, ask by the number of the host, 127.0.0.1, or localhost")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise Refused(403, "without --token, pages of other sites have no access")


def is_number_or_localhost(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def taken_over(environ: Environ) -> tuple[Any, bytes]:
    """Take the connection over. Raises: Refused for a request whose body is still to come, as none is wanted here."""
    if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
        raise Refused(400, "this is to GET without a body")
    sock, rest = environ["dhaga.upgrade"]()
    return sock, rest


def token_of(environ: Environ, query: dict[str, list[str]]) -> str:
    """Find the token that a request brings."""
    kind, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return str(token.strip()) if kind.lower() == "bearer" else query.get("token", [""])[0]


def after_of(environ: Environ, query: dict[str, list[str]]) -> Id | None:
    """Find the id after which a client wants messages; what a browser saw last counts before what its page said."""
    text = environ.get("HTTP_LAST_EVENT_ID") or query.get("after", [""])[0]
    return Id.parse(text) if text else None


def wait_of(query: dict[str, list[str]]) -> float:
    """Read how many seconds a poll may wait. Raises: Refused."""
    text = query.get("wait", ["25"])[0]
    try:
        return min(max(0.0, float(text)), LONGEST_WAIT)
    except ValueError:
        raise Refused(400, f"wait={text[:40]} is not a number of seconds") from None


def as_text(status: int, text: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", text.encode(errors="replace") + b"\n")


def as_json(data: Any) -> Answer:
    return Answer(200, "application/json", json.dumps(data).encode())
