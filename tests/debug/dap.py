"""A client of the debug adapter protocol, as far as a test needs it."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
PATIENCE = 60.0


class Client:
    """Talks to debugpy; keeps the events that have come."""

    def __init__(self, port: int) -> None:
        self.sock = connect(port)
        self.file = self.sock.makefile("rb")
        self.number = itertools.count(1)
        self.events: list[Message] = []

    def close(self) -> None:
        self.file.close()
        self.sock.close()

    def send(self, command: str, **arguments: object) -> int:
        number = next(self.number)
        body = json.dumps({"seq": number, "type": "request", "command": command, "arguments": arguments}).encode()
        self.sock.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return number

    def ask(self, command: str, **arguments: object) -> Message:
        """Return the body of the answer. Raises: AssertionError if it is a refusal."""
        number = self.send(command, **arguments)
        answer = self.receive(lambda message: message.get("request_seq") == number)
        assert answer["success"], answer
        return dict(answer.get("body") or {})

    def event(self, name: str) -> Message:
        """Return the body of the next event of this name."""
        for event in self.events:
            if event["event"] == name:
                self.events.remove(event)
                return dict(event.get("body") or {})
        event = self.receive(lambda message: message.get("event") == name)
        self.events.remove(event)
        return dict(event.get("body") or {})

    def receive(self, wanted: Callable[[Message], bool]) -> Message:
        while True:
            length = 0
            while (line := self.file.readline().strip()) or not length:
                assert line or length == 0
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            message: Message = json.loads(self.file.read(length))
            if message["type"] == "event":
                self.events.append(message)
            if wanted(message):
                return message


def connect(port: int) -> socket.socket:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
