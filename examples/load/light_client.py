"""A light client: of `requests.Session` what most scenarios need, at a fraction of its cost.

URLs, parameters, headers, forms, JSON, cookies, redirects, connections that are kept, compressed answers, TLS. Not:
files, authentication, proxies, streams; `--client requests` has them.
"""

from __future__ import annotations

import functools
import json as standard_json
import zlib
from collections.abc import Mapping
from email.message import Message
from http.cookiejar import CookieJar
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urljoin, urlsplit
from urllib.request import Request

from examples._late import Late

from .wire import Connection, Endpoint, Received

requests: Any = Late("requests")
structures: Any = Late("requests.structures")

AGENT = "dhaga-load"
REDIRECTS = 10  # that are followed, at most
KEPT = "!#$%&'()*+,/:;=?@[]~"  # characters of a URL that stay as they are
PORTS = {"http": 80, "https": 443}
AGAIN = frozenset(("GET", "HEAD", "PUT", "DELETE", "OPTIONS"))
"""Methods that may be sent twice (RFC 9110, 9.2.2): a server may close a kept connection just when it is used."""


class Target(NamedTuple):
    """What a URL says: where to connect, and the two lines by which a request begins."""

    place: Endpoint
    lines: str

    @classmethod
    def of(cls, url: str, verify: bool | str) -> Target:
        """Take a URL apart."""
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        path = quote(parts.path or "/", KEPT) + (f"?{quote(parts.query, KEPT)}" if parts.query else "")
        host = parts.netloc.rpartition("@")[2]
        lines = f"{path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\nAccept-Encoding: gzip, deflate\r\n"
        return cls(Endpoint(parts.scheme, parts.hostname or "", port, verify), lines)


target_of = functools.lru_cache(1024)(Target.of)


class Answer:
    """What was answered. Source: `requests.Response`."""

    def __init__(self, url: str, received: Received) -> None:
        self.url = url
        self.status_code = received.status
        self.raw_headers = received.headers
        self.body = b"".join(received.pieces)

    def __repr__(self) -> str:
        return f"<Answer {self.status_code}>"

    @functools.cached_property
    def headers(self) -> Any:
        """The headers; the last one of a name."""
        return structures.CaseInsensitiveDict(
            (name.decode("latin-1"), text.decode("latin-1")) for name, text in self.raw_headers
        )

    @functools.cached_property
    def content(self) -> bytes:
        """The body, decompressed."""
        coding = self.headers.get("Content-Encoding", "").strip().lower()
        if coding not in ("gzip", "deflate") or not self.body:
            return self.body
        return zlib.decompress(self.body, wbits(coding, self.body))

    @property
    def text(self) -> str:
        """The body as text, in the encoding that the server tells, else UTF-8."""
        told = Message()
        told["Content-Type"] = self.headers.get("Content-Type", "")
        try:
            return self.content.decode(told.get_content_charset("utf-8"), "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Return whether the status is below 400."""
        return self.status_code < 400

    def json(self) -> Any:
        """Return what the body says. Raises: ValueError."""
        return standard_json.loads(self.content)

    def raise_for_status(self) -> None:
        """Raise HTTPError if the status is 400 or above."""
        if not self.ok:
            raise requests.HTTPError(f"HTTP {self.status_code} for {self.url}")


def wbits(coding: str, body: bytes) -> int:
    """Return how zlib is to read a body: `deflate` comes with its header (RFC 9110) or, from some servers, without."""
    if coding == "gzip":
        return zlib.MAX_WBITS | 16
    return zlib.MAX_WBITS if body[0] & 0x0F == 8 else -zlib.MAX_WBITS


class Session:
    """Requests with connections and cookies of their own. Source: `requests.Session`, some of it."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.cookies = CookieJar()
        self.idle: dict[Endpoint, list[Connection]] = {}

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Any = None,
        data: Any = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        allow_redirects: bool = True,
        verify: bool | str = True,
    ) -> Answer:
        """Make a request. Parks: while it is under way. Raises: OSError, httptools.HttpParserError, HTTPError."""
        if params:
            url += ("&" if "?" in url else "?") + urlencode(params, doseq=True)
        body, kind = body_of(data, json)
        fields = {**self.headers, **kind, **(headers or {})}
        for _ in range(REDIRECTS + 1):
            answer = self.exchange(method, url, fields, body, verify)
            if not (allow_redirects and 300 < answer.status_code < 309 and "Location" in answer.headers):
                return answer
            url = urljoin(url, answer.headers["Location"])
            if answer.status_code == 303 or (answer.status_code in (301, 302) and method == "POST"):
                method, body = "GET", None
        raise requests.HTTPError(f"more than {REDIRECTS} redirects, to {url}")

    def exchange(self, method: str, url: str, fields: dict[str, str], body: bytes | None, verify: bool | str) -> Answer:
        """Make a request as it is, with the cookies that are for it."""
        target = target_of(url, verify)
        if len(self.cookies):
            add_cookies(self.cookies, url, fields)
        request = f"{method} {target.lines}{''.join(map(line, fields.items()))}"
        if body is not None:
            request += f"Content-Length: {len(body)}\r\n"
        received = self.sent(target.place, method, (request + "\r\n").encode("latin-1") + (body or b""))
        answer = Answer(url, received)
        if any(name.lower() == b"set-cookie" for name, _ in received.headers):
            take_cookies(self.cookies, url, received)
        return answer

    def sent(self, place: Endpoint, method: str, request: bytes) -> Received:
        """Send it over a connection that is kept, or else over a new one."""
        idle = self.idle.setdefault(place, [])
        while idle:
            connection = idle.pop()
            try:
                if method in AGAIN or connection.is_quiet():
                    return self.sent_over(connection, idle, method, request)
                connection.close()
            except (ConnectionResetError, BrokenPipeError) as error:
                if method not in AGAIN or getattr(error, "begun", False):
                    raise
        return self.sent_over(Connection(place), idle, method, request)

    def sent_over(self, connection: Connection, idle: list[Connection], method: str, request: bytes) -> Received:
        keeps = False
        try:
            received = connection.exchange(method, request)
            keeps = received.keeps
        finally:
            if keeps:
                idle.append(connection)
            else:
                connection.close()
        return received

    def close(self) -> None:
        """Close what is kept."""
        for idle in self.idle.values():
            while idle:
                idle.pop().close()


def body_of(data: Any, json: Any) -> tuple[bytes | None, dict[str, str]]:
    """Return a body, and the header that tells of what kind it is."""
    if json is not None:
        return standard_json.dumps(json).encode(), {"Content-Type": "application/json"}
    if data is None:
        return None, {}
    if isinstance(data, str):
        return data.encode(), {}
    if isinstance(data, bytes):
        return data, {}
    return urlencode(data, doseq=True).encode(), {"Content-Type": "application/x-www-form-urlencoded"}


def line(field: tuple[str, str]) -> str:
    """Return the line of a header. Raises: ValueError if it would be more than one."""
    name, text = field
    if "\n" in f"{name}{text}" or "\r" in f"{name}{text}":
        raise ValueError(f"a header must not have a line break: {name!r}")
    return f"{name}: {text}\r\n"


def add_cookies(cookies: CookieJar, url: str, fields: dict[str, str]) -> None:
    """Add the cookies for a URL to the headers of a request."""
    asking = Request(url)
    cookies.add_cookie_header(asking)
    fields.pop("Cookie", None)
    if asking.has_header("Cookie"):
        fields["Cookie"] = asking.get_header("Cookie") or ""


class AnswerHeaders:
    """The headers of an answer, as a cookie jar asks for them."""

    def __init__(self, received: Received) -> None:
        self.message = Message()
        for name, text in received.headers:
            self.message[name.decode("latin-1")] = text.decode("latin-1")

    def info(self) -> Message:
        """Return them."""
        return self.message


def take_cookies(cookies: CookieJar, url: str, received: Received) -> None:
    """Keep the cookies that an answer sets."""
    cookies.extract_cookies(AnswerHeaders(received), Request(url))  # type: ignore[arg-type]
