"""The clients of the night, on plain OS threads: who judges is no part of what is judged.

An answer with status 200 must be right to the last byte. A 503 is explained by an outage of the service asked for, and
a connection that ends before an answer only where it was kept from a former request: a server may close an idle one.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import socket
import threading
import time
from collections.abc import Mapping

from tests.soak.ledger import Ledger
from tests.soak.night.relay import NO_LINGER, Relay

PATIENCE = 60.0
"""Seconds for which a client waits. A view waits 10 s for a connection, and as long for a service that is away."""

PAUSE = 0.4
"""Seconds between two requests, at most: 6 clients then ask about 25 times a second."""

BODY = 300_000
"""Bytes of a body, at most."""

KEPT_FOR = 20
"""Requests over one connection, at most."""

SERVICES = {"psycopg2": "postgres", "psycopg": "postgres", "redis": "redis", "later": ""}
"""The views that answer with the digest of a token, and the service that each needs."""


class Client:
    """Asks, one request after the other, until the end; ``seed`` decides what."""

    def __init__(self, address: tuple[str, int], relays: Mapping[str, Relay], ledger: Ledger, seed: str) -> None:
        self.address = address
        self.relays = relays
        self.ledger = ledger
        self.choose = random.Random(seed)
        self.over = threading.Event()
        self.connection: http.client.HTTPConnection | None = None
        self.asked = 0
        self.thread = threading.Thread(target=self.run, name=f"client {seed}", daemon=True)

    def run(self) -> None:
        deeds = (*[self.ask_for_digest] * 8, self.send_body, self.read_slowly, self.die_asking, self.die_reading)
        try:
            while not (self.over.wait(self.choose.random() * PAUSE) or self.ledger.failed.is_set()):
                self.choose.choice(deeds)()
        except Exception as error:
            self.ledger.fail("a client ended by an error that nothing explains", error)
        finally:
            self.leave()

    def leave(self) -> None:
        """Close the connection that is kept, if there is one."""
        if self.connection is not None:
            self.connection.close()
        self.connection, self.asked = None, 0

    # ---- whole requests

    def ask_for_digest(self) -> None:
        view = self.choose.choice(list(SERVICES))
        token = self.choose.randbytes(8).hex()
        began = time.monotonic()
        status, answer = self.request("GET", f"/{view}/{token}")
        service = SERVICES[view]
        if status == 503 and service and self.relays[service].was_away(began):
            self.ledger.troubles.add(f"told that {service} is away")
        else:
            self.judge(view, status, answer, hashlib.md5(token.encode()).hexdigest().encode())

    def send_body(self) -> None:
        body = self.choose.randbytes(self.choose.randint(0, BODY))
        status, answer = self.request("POST", "/body", body)
        self.judge("body", status, answer, hashlib.sha256(body).digest() + body)

    def judge(self, what: str, status: int, answer: bytes, right: bytes) -> None:
        """Count a right answer, and fail for any other."""
        if status == 200 and answer == right:
            self.ledger.operations.add(what)
        else:
            self.ledger.fail(f"{what}: wrong answer, status {status}: {answer[:200]!r} instead of {right[:60]!r}")

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Ask over the connection that is kept, and once more over a new one if the server has closed it."""
        while True:
            is_kept = self.connection is not None
            if self.connection is None:
                self.connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
            try:
                self.connection.request(method, path, body)
                response = self.connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                self.leave()
                if not is_kept:
                    raise
                self.ledger.troubles.add("idle connections closed")
                continue
            answer = response.read()
            self.asked += 1
            if response.will_close or self.asked > self.choose.randint(1, KEPT_FOR):
                self.leave()
            return response.status, answer

    # ---- over a connection of its own

    def read_slowly(self) -> None:
        """Leave the server no room for its answer, for a while."""
        body = self.choose.randbytes(BODY)
        with self.connected() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            sender = threading.Thread(target=sock.sendall, args=(self.head(len(body)) + body,))
            sender.start()
            with sock.makefile("rb", 8192) as lines:
                status = int(lines.readline().split()[1])
                while lines.readline() != b"\r\n":
                    pass
                answer = bytearray()
                while data := lines.read(8192):
                    answer += data
                    time.sleep(0.005)
            sender.join()
        self.judge("slow reader", status, bytes(answer), hashlib.sha256(body).digest() + body)

    def die_asking(self) -> None:
        """Reset the connection halfway through a request."""
        body = self.choose.randbytes(BODY)
        request = self.head(len(body)) + body
        self.die(request[: self.choose.randint(1, len(request) - 1)])

    def die_reading(self) -> None:
        """Ask, and reset the connection before the answer, or in the middle of it."""
        body = self.choose.randbytes(self.choose.randint(1, BODY))
        self.die(self.head(len(body)) + body)

    def die(self, data: bytes) -> None:
        with self.connected() as sock:
            sock.sendall(data)
            time.sleep(self.choose.random() * 0.1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.ledger.troubles.add("dying clients")

    def connected(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE)

    def head(self, length: int) -> bytes:
        return b"POST /body HTTP/1.1\r\nHost: night\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % length
