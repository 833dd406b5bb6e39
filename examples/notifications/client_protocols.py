"""How a client speaks with each endpoint: what it asks, what it hears, what it answers. Without sockets.

What is heard: messages {"id", "topic", "data"}, {"last": id} when the endpoint begins, {"gap": …}, {"error": …}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

Heard = dict[str, Any]


class ClientProtocol(Protocol):
    """One connection's talk."""

    def __init__(self, host: str, topic: str, token: str) -> None: ...

    def ask(self, after: str | None) -> bytes:
        """Say what to send first, to hear what has come after an id, and what comes."""

    def hear(self, data: bytes) -> tuple[list[Heard], bytes]:
        """Take what was received. Returns: what it says, and what to answer."""


class LineClient:
    """The line protocol."""

    def __init__(self, host: str, topic: str, token: str) -> None:
        self.topic = topic
        self.token = token
        self.buffer = b""

    def ask(self, after: str | None) -> bytes:
        """Say who we are, and subscribe."""
        hello = f"AUTH {self.token}\n" if self.token else ""
        return f"{hello}SUB {self.topic} {after or ''}".strip().encode() + b"\n"

    def hear(self, data: bytes) -> tuple[list[Heard], bytes]:
        """Take lines; answer each PING."""
        heard, answer = [], b""
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"MSG":
                heard.append(json.loads(rest))
            elif word == b"PING":
                answer += b"PONG\n"
            elif word == b"GAP":
                heard.append({"gap": json.loads(rest)})
            elif word == b"ERR":
                heard.append({"error": rest.decode()})
            elif rest.startswith(self.topic.encode() + b" "):
                heard.append({"last": rest.rpartition(b" ")[2].decode()})
        return heard, answer


class ResponseHead:
    """Cuts the head off an HTTP response."""

    def __init__(self) -> None:
        self.buffer = b""
        self.seen = False

    def rest(self, data: bytes) -> bytes:
        """Give what follows the head. Raises: ConnectionError if the response is an error."""
        self.buffer += data
        if not self.seen:
            head, end, rest = self.buffer.partition(b"\r\n\r\n")
            if not end:
                return b""
            if head.split(b" ", 2)[1] not in (b"200", b"101"):
                raise ConnectionError(self.buffer.decode(errors="replace"))
            self.seen, self.buffer = True, rest
        taken, self.buffer = self.buffer, b""
        return taken


class EventStreamClient:
    """The endpoint of server-sent events."""

    def __init__(self, host: str, topic: str, token: str) -> None:
        self.host = host
        self.query = urlencode({"topic": topic, **({"token": token} if token else {})})
        self.head = ResponseHead()
        self.buffer = b""

    def ask(self, after: str | None) -> bytes:
        """Ask for the stream."""
        last = f"Last-Event-ID: {after}\r\n" if after else ""
        return f"GET /events?{self.query} HTTP/1.1\r\nHost: {self.host}\r\n{last}\r\n".encode()

    def hear(self, data: bytes) -> tuple[list[Heard], bytes]:
        """Take events."""
        *events, self.buffer = (self.buffer + self.head.rest(data)).split(b"\n\n")
        return [heard for event in events for heard in self.meaning(event)], b""

    def meaning(self, event: bytes) -> Iterator[Heard]:
        """Tell what one event says; a comment says nothing."""
        lines = dict(line.split(b": ", 1) for line in event.split(b"\n"))
        if b"data" in lines:
            data = json.loads(lines[b"data"])
            yield {"gap": data} if lines.get(b"event") == b"gap" else data


class WebSocketClient:
    """The WebSocket endpoint."""

    def __init__(self, host: str, topic: str, token: str) -> None:
        from wsproto import WSConnection
        from wsproto.connection import ConnectionType

        self.host = host
        self.topic = topic
        self.target = "/socket" + (f"?token={quote(token)}" if token else "")
        self.after: str | None = None
        self.text = ""
        self.connection = WSConnection(ConnectionType.CLIENT)

    def ask(self, after: str | None) -> bytes:
        """Ask for the handshake; the subscription follows it."""
        from wsproto.events import Request

        self.after = after
        return self.connection.send(Request(host=self.host, target=self.target))

    def hear(self, data: bytes) -> tuple[list[Heard], bytes]:
        """Take frames. Raises: ConnectionError if the connection is closed."""
        from wsproto import events

        self.connection.receive_data(data)
        heard, answer = [], b""
        for event in self.connection.events():
            if isinstance(event, events.AcceptConnection):
                command = {"subscribe": self.topic, "after": self.after}
                answer += self.connection.send(events.TextMessage(data=json.dumps(command)))
            elif isinstance(event, events.TextMessage):
                self.text += event.data
                if event.message_finished:
                    heard.append(json.loads(self.text))
                    self.text = ""
            elif isinstance(event, events.Ping):
                answer += self.connection.send(event.response())
            else:
                raise ConnectionError(f"the WebSocket is closed: {event}")
        return heard, answer


class LongPollClient:
    """The long-poll endpoint: each answer is followed by the next question, on the same connection."""

    def __init__(self, host: str, topic: str, token: str) -> None:
        self.host = host
        self.query = {"topic": topic, **({"token": token} if token else {})}
        self.buffer = b""

    def ask(self, after: str | None) -> bytes:
        """Ask what has come after an id; without one, where we are."""
        query = urlencode({**self.query, **({"after": after} if after else {})})
        return f"GET /poll?{query} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode()

    def hear(self, data: bytes) -> tuple[list[Heard], bytes]:
        """Take an answer. Raises: ConnectionError if it is an error."""
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return [], b""
        if head.split(b" ", 2)[1] != b"200":
            raise ConnectionError(self.buffer.decode(errors="replace"))
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return [], b""
        self.buffer = body[length:]
        answer = json.loads(body[:length])
        gap: list[Heard] = [{"gap": None}] if answer["gap"] else []
        return [*gap, *answer["messages"], {"last": answer["last"]}], self.ask(answer["last"])


PROTOCOLS: Final[dict[str, Callable[[str, str, str], ClientProtocol]]] = {
    "tcp": LineClient,
    "sse": EventStreamClient,
    "websocket": WebSocketClient,
    "poll": LongPollClient,
}
