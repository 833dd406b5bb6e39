"""A site of numbers, which answers well, late, in pieces, half, or not at all, and checks what it is asked."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator

from dhaga import socket

PORT = 80

LARGE = 60_000
"""Repetitions in a large answer: more bytes than the buffers of a socket hold."""


def body_of(number: int) -> bytes:
    """Return the answer to a request: its number, again and again."""
    return b"%d " % number * (LARGE if number % 10 == 9 else number % 40)


class Site:
    """Runs on one host. ``waiting``: the most seconds that it waits for a request, or before an answer."""

    def __init__(self, waiting: float) -> None:
        self.waiting = waiting
        self.calm = False

    def serve(self) -> None:
        with socket.create_server(("", PORT)) as listener:
            while True:
                peer, _ = listener.accept()
                threading.Thread(target=self.talk, args=(peer,), daemon=True).start()

    def talk(self, peer: socket.socket) -> None:
        """Answer the requests of a connection until one end has enough."""
        with contextlib.suppress(OSError, EOFError), peer:
            peer.settimeout(self.patience())
            goes_on = True
            while goes_on:
                number = self.receive(peer)
                goes_on = self.way()(self, peer, number)

    def way(self) -> Callable[[Site, socket.socket, int], bool]:
        return Site.whole if self.calm else random.choice(WAYS)

    def patience(self) -> float:
        return 1000 if self.calm else random.uniform(0.01, self.waiting)

    def receive(self, peer: socket.socket) -> int:
        """Receive one request. Returns: its number. Raises: OSError, EOFError."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.read(peer)
        head, _, body = data.partition(b"\r\n\r\n")
        number = int(head.split(b" ", 2)[1].rpartition(b"/")[2])
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
        while len(body) < length:
            body += self.read(peer)
        assert body == (body_of(number) if length else b""), f"request {number} has the body {body[:50]!r}"
        return number

    def read(self, peer: socket.socket) -> bytes:
        if data := peer.recv(1 << 16):
            return data
        raise EOFError

    def check_unasked(self, peer: socket.socket) -> None:
        """Check that nobody has sent another request before the answer to this one is complete."""
        peer.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert not (data := peer.recv(100, socket.MSG_PEEK)), f"a second request: {data!r}"
        peer.settimeout(self.patience())

    # ---- the ways to answer; each returns whether the connection goes on

    def whole(self, peer: socket.socket, number: int) -> bool:
        body = body_of(number)
        self.check_unasked(peer)
        peer.sendall(head_of(200, f"Content-Length: {len(body)}") + body)
        return True

    def late(self, peer: socket.socket, number: int) -> bool:
        time.sleep(random.uniform(0, self.waiting))
        return self.whole(peer, number)

    def in_pieces(self, peer: socket.socket, number: int) -> bool:
        peer.sendall(head_of(200, "Transfer-Encoding: chunked"))
        for piece in pieces_of(body_of(number)):
            peer.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            time.sleep(random.uniform(0, self.waiting / 4))
        self.check_unasked(peer)
        peer.sendall(b"0\r\n\r\n")
        return True

    def last(self, peer: socket.socket, number: int) -> bool:
        body = body_of(number)
        peer.sendall(head_of(200, f"Content-Length: {len(body)}", "Connection: close") + body)
        return False

    def elsewhere(self, peer: socket.socket, number: int) -> bool:
        self.check_unasked(peer)
        peer.sendall(head_of(302, "Content-Length: 4", f"Location: /again/{number}") + b"gone")
        return True

    def later(self, peer: socket.socket, number: int) -> bool:
        self.check_unasked(peer)
        peer.sendall(head_of(503, "Content-Length: 4", "Retry-After: 1") + b"busy")
        return True

    def half(self, peer: socket.socket, number: int) -> bool:
        """Break off before the answer or in its body: ``http.client`` takes half a head for a whole one."""
        head, body = head_of(200, f"Content-Length: {len(body_of(number)) + 1}"), body_of(number)
        if random.random() < 0.8:
            peer.sendall(head + body[: random.randrange(len(body) + 1)])
        return False

    def broken(self, peer: socket.socket, number: int) -> bool:
        peer.sendall(head_of(200, "Transfer-Encoding: chunked") + b"5\r\n12345\r\n")
        return False

    def silent(self, peer: socket.socket, number: int) -> bool:
        time.sleep(random.uniform(0, 4 * self.waiting))
        return False


WAYS = [
    *[Site.whole] * 4, Site.late, Site.in_pieces, Site.last, Site.elsewhere, Site.later, Site.half, Site.broken,
    Site.silent,
]  # fmt: skip


def head_of(status: int, *headers: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status} Status", *headers, "\r\n")).encode()


def pieces_of(body: bytes) -> Iterator[bytes]:
    size = max(1, len(body) // random.randint(1, 4))
    return (body[place : place + size] for place in range(0, len(body), size))
