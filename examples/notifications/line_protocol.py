"""The line protocol: a plain TCP protocol for telnet and small programs.

A client sends lines, of UTF-8 and at most a message long, and gets lines:

    AUTH token             OK name
    SUB topic [after-id]   OK topic last-id, then what it has missed, then what comes
    UNSUB topic            OK topic
    PUB topic text         OK id
    PONG                   (the answer to PING)
    QUIT                   OK bye

    MSG {"id": …, "topic": …, "data": …}
    GAP {"after": …, "lost": …}   messages are gone, after that id, or so many because the client is slow
    PING
    ERR status reason

Where tokens are needed, the first line is AUTH, and a short one; the third heartbeat without it ends the connection. A
line of a browser that a page has told to POST here ends it, too: the body would be commands.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Callable, Iterator
from typing import Any, Final

from .messages import Id, Message, Refused
from .runtime import time
from .service import Service
from .socket_clients import Client, Format
from .subscriptions import Subscriptions

READ_SIZE: Final = 4096
REST: Final = 256  # of a line, for what stands before a message
HTTP: Final = (b"POST", b"HOST:")
ENDS: Final = (401, 421)  # the statuses after which nothing good can follow


def message_line(message: Message) -> bytes:
    """Say a message."""
    return b"MSG " + message.json + b"\n"


def gap_line(after: Id | None, lost: int | None) -> bytes:
    """Say that messages are missing."""
    return b"GAP " + json.dumps({"after": after and str(after), "lost": lost}).encode() + b"\n"


LINES: Final = Format("lines", message_line, gap_line, b"PING\n", answers=True)


def ok(*words: object) -> bytes:
    return " ".join(map(str, ("OK", *words))).encode() + b"\n"


def error(refused: Refused) -> bytes:
    return f"ERR {refused.status} {refused.reason}\n".encode(errors="replace")


class LineHandler:
    """Serves one connection after another: `handler(sock, peer)`."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def __call__(self, sock: Any, peer: Any) -> None:
        """Serve a client until it leaves."""
        name = "" if self.service.tokens.names else self.service.tokens.holder("")
        with self.service.client(sock, LINES, name) as client:
            session = Session(self.service, client)
            try:
                for line in lines_of(sock, session.longest):
                    client.heard = clock.monotonic()
                    session.obey(line)
                    time.sleep(0)  # one read may hold hundreds of commands
            except Refused as refused:
                client.write(error(refused))
            except (OSError, EOFError):
                pass
            finally:
                session.subscriptions.end()


def lines_of(sock: Any, longest: Callable[[], int]) -> Iterator[bytes]:
    """Read lines until the end of the stream. Parks: meanwhile. Raises: Refused for one that is too long, OSError."""
    line = bytearray()
    while data := sock.recv(READ_SIZE):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > longest():
            raise Refused(413, f"a line is longer than {longest()} bytes")


class Session:
    """One client's commands."""

    __slots__ = ("client", "service", "subscriptions")

    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client
        self.subscriptions = Subscriptions(service, client)

    def longest(self) -> int:
        """Return how long a line may be: a stranger's is a token."""
        return self.service.limits.message + REST if self.client.name else REST

    def obey(self, line: bytes) -> None:
        """Do what a line says. Raises: EOFError after QUIT; Refused where nothing good can follow."""
        word, _, rest = line.strip().partition(b" ")
        command = self.commands.get(word.upper())
        try:
            if word.upper() in HTTP:
                raise Refused(421, "this is no port of HTTP")
            if not self.client.name and command is not Session.authenticate:
                raise Refused(401, "a token is needed: begin with AUTH token")
            if command is None:
                raise Refused(400, f"no such command: use {', '.join(name.decode() for name in self.commands)}")
            command(self, rest)
        except Refused as refused:
            if refused.status in ENDS:
                raise
            self.client.write(error(refused))

    def authenticate(self, rest: bytes) -> None:
        self.client.name = self.service.tokens.holder(rest.decode(errors="replace"))
        self.client.write(ok(self.client.name))

    def subscribe(self, rest: bytes) -> None:
        topic, _, after = rest.decode(errors="replace").partition(" ")
        start = Id.parse(after) if after else None
        self.subscriptions.add([topic], start, lambda missed: ok(topic, missed.last))

    def unsubscribe(self, rest: bytes) -> None:
        topic = rest.decode(errors="replace")
        self.subscriptions.remove(topic)
        self.client.write(ok(topic))

    def publish(self, rest: bytes) -> None:
        topic, _, text = rest.partition(b" ")
        self.client.write(ok(self.service.publish(topic.decode(errors="replace"), text)))

    def pong(self, rest: bytes) -> None:
        pass  # heard

    def quit(self, rest: bytes) -> None:
        self.client.write(ok("bye"))
        raise EOFError

    commands: Final = {
        b"AUTH": authenticate,
        b"SUB": subscribe,
        b"UNSUB": unsubscribe,
        b"PUB": publish,
        b"PONG": pong,
        b"QUIT": quit,
    }
