"""The WebSocket endpoint: GET /socket; wsproto speaks the protocol, and is needed here alone.

A client sends JSON, {"subscribe": topic, "after": id or none}, {"unsubscribe": topic} or {"publish": topic, "data":
text}, and gets {"subscribed": topic, "last": id}, {"unsubscribed": topic}, {"published": id}, {"error": …, "status":
…}, messages {"id": …, "topic": …, "data": …}, and {"gap": {"after": …, "lost": …}} where some are missing.
"""

from __future__ import annotations

import json
import time as clock
from collections.abc import Iterator
from io import StringIO
from typing import Any, Final

from wsproto.connection import Connection, ConnectionType
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.handshake import H11Handshake
from wsproto.utilities import ProtocolError

from .messages import Id, Message, Refused
from .runtime import time
from .service import Service
from .socket_clients import Client, Format
from .subscriptions import Subscriptions

READ_SIZE: Final = 4096
REST: Final = 4096  # of a command, beside a message whose text is not escaped

FRAGMENTS: Final = 128
"""Frames of one command: empty ones never reach a bound of length. Browsers send one; 128 take some 3 ms."""

TOO_BIG, BAD, GOING = 1009, 1003, 1001

SENDER: Final = Connection(ConnectionType.SERVER)
"""Makes the frames for all clients: those of a server are not masked, and without extensions depend on nothing."""


def frame(data: Any) -> bytes:
    """Make a text frame of JSON."""
    return SENDER.send(TextMessage(data=json.dumps(data, ensure_ascii=False)))


def message_frame(message: Message) -> bytes:
    """Say a message."""
    return SENDER.send(TextMessage(data=message.json.decode()))


def gap_frame(after: Id | None, lost: int | None) -> bytes:
    """Say that messages are missing."""
    return frame({"gap": {"after": after and str(after), "lost": lost}})


FRAMES: Final = Format("websocket", message_frame, gap_frame, SENDER.send(Ping()), answers=True)


def accept(environ: dict[str, Any]) -> bytes:
    """Make the answer to a handshake. Raises: Refused."""
    headers = [
        (name[5:].replace("_", "-").encode("latin-1"), str(value).encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_") and name != "HTTP_SEC_WEBSOCKET_EXTENSIONS"
    ]
    handshake = H11Handshake(ConnectionType.SERVER)
    try:
        handshake.initiate_upgrade_connection(headers, "/socket")
        return handshake.send(AcceptConnection())
    except ProtocolError as error:
        raise Refused(426, f"this is for WebSocket: {error}") from None


def serve_frames(service: Service, sock: Any, rest: bytes, answer: bytes, name: str) -> None:
    """Talk on a connection that is ours. Parks: until it ends."""
    with service.client(sock, FRAMES, name) as client:
        conversation = WebSocketSession(service, client, rest)
        try:
            client.write(answer)
            conversation.converse()
        except OSError:
            pass
        finally:
            conversation.subscriptions.end()


class WebSocketSession:
    """One client's commands."""

    __slots__ = ("client", "fragments", "protocol", "service", "subscriptions", "text")

    def __init__(self, service: Service, client: Client, rest: bytes) -> None:
        self.service = service
        self.client = client
        self.protocol = Connection(ConnectionType.SERVER, trailing_data=rest)
        self.subscriptions = Subscriptions(service, client)
        self.text = StringIO()
        self.fragments = 0

    def converse(self) -> None:
        """Obey until the end. Parks: while the client is silent. Raises: OSError."""
        for event in self.events():
            self.client.heard = clock.monotonic()
            if isinstance(event, TextMessage):
                self.take(event)
            elif isinstance(event, Ping):
                self.client.write(self.protocol.send(event.response()))
            elif isinstance(event, BytesMessage):
                self.close(BAD, "commands are text")
            elif isinstance(event, CloseConnection):
                self.client.write(self.protocol.send(event.response()))
                return
            if self.client.closed or not isinstance(event, TextMessage | Ping | Pong):
                return
            time.sleep(0)  # one read may hold hundreds of commands

    def events(self) -> Iterator[Any]:
        """Give what the client sends."""
        while True:
            try:
                yield from self.protocol.events()
            except ProtocolError as error:
                self.close(getattr(error, "code", BAD), str(error))
                return
            data = self.client.sock.recv(READ_SIZE)
            if not data:
                return
            self.protocol.receive_data(data)

    def take(self, event: TextMessage) -> None:
        """Take a piece of a command, and obey once it is whole."""
        self.text.write(event.data)
        self.fragments += event.frame_finished
        if self.text.tell() > self.service.limits.message + REST:
            self.close(TOO_BIG, "a command is too long")
        elif self.fragments > FRAGMENTS:
            self.close(TOO_BIG, f"a command has more than {FRAGMENTS} frames")
        elif event.message_finished:
            text, self.text, self.fragments = self.text.getvalue(), StringIO(), 0
            try:
                self.obey(text)
            except Refused as refused:
                self.say({"error": refused.reason, "status": refused.status})

    def obey(self, text: str) -> None:
        match parsed(text):
            case {"subscribe": str(topic), **rest}:
                after = Id.parse(str(rest["after"])) if rest.get("after") else None
                self.subscriptions.add(
                    [topic], after, lambda missed: frame({"subscribed": topic, "last": str(missed.last)})
                )
            case {"unsubscribe": str(topic)}:
                self.subscriptions.remove(topic)
                self.say({"unsubscribed": topic})
            case {"publish": str(topic), "data": str(data)}:
                self.say({"published": str(self.service.publish(topic, data.encode(errors="surrogatepass")))})
            case _:
                raise Refused(400, 'no such command: send {"subscribe": topic}, {"unsubscribe": …} or {"publish": …}')

    def say(self, data: Any) -> None:
        self.client.write(frame(data))

    def close(self, code: int, reason: str) -> None:
        """Say why this ends. The caller then leaves."""
        self.client.write(self.protocol.send(CloseConnection(code=code, reason=reason[:100])))
        self.client.close()


def parsed(text: str) -> Any:
    """Read JSON. Raises: Refused."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(400, "that is no JSON") from None
