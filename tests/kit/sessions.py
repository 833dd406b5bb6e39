"""Code shared by the tests of sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import requests as standard

import dhaga
from dhaga.http import Session
from tests.http.site import Request, Site, answer


def socket_of(response: standard.Response) -> Any:
    """Return the socket of a response whose body was not read."""
    return response.raw._connection.sock


def get_all(session: Session, url: str, count: int) -> list[Any]:
    """Request one page from ``count`` dhagas at once."""
    asking = [dhaga.spawn(session.get, url) for _ in range(count)]
    return [each.result() for each in asking]


def trickle(sock: Any) -> None:
    """Send a body of 10 bytes, one every 2 seconds."""
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    for _ in range(10):
        dhaga.sleep(2)
        sock.sendall(b"x")


class Trickling(Site):
    def reply(self, sock: Any, request: Request) -> None:
        trickle(sock)


def failing(times: int, **headers: str) -> Callable[[Request], bytes]:
    left = [answer(status="503 Service Unavailable", **headers)] * times
    return lambda request: left.pop() if left else answer(b"at last")
