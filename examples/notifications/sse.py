"""The endpoint of server-sent events: GET /events?topic=a&topic=b, for a browser's EventSource.

The response goes on until either side ends it. `hello` tells the id from which on it goes; a browser that comes back
sends the last id it has seen as Last-Event-ID.
"""

from __future__ import annotations

import json
from typing import Any, Final

from .broker import Missed
from .messages import Id, Message, Refused
from .service import Service
from .socket_clients import Format
from .subscriptions import Subscriptions

HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"X-Accel-Buffering: no\r\nConnection: close\r\n\r\n"
)
READ_SIZE: Final = 1024


def message_event(message: Message) -> bytes:
    """Say a message."""
    return b"id: %s\ndata: %s\n\n" % (str(message.id).encode(), message.json)


def gap_event(after: Id | None, lost: int | None) -> bytes:
    """Say that messages are missing."""
    return b"event: gap\ndata: " + json.dumps({"after": after and str(after), "lost": lost}).encode() + b"\n\n"


def hello_event(missed: Missed) -> bytes:
    """Say where the stream begins; the id is for a client that comes back before it has got a message."""
    start = missed.last if not missed.messages else None
    position = b"id: %s\n" % str(start).encode() if start else b""
    return b"retry: 1000\nevent: hello\n" + position + b'data: {"last": "%s"}\n\n' % str(missed.last).encode()


def refusal(refused: Refused) -> bytes:
    """Answer with an error: an EventSource then gives up."""
    head = f"HTTP/1.1 {refused.status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    return f"{head}{refused.reason}\n".encode(errors="replace")


EVENTS: Final = Format("events", message_event, gap_event, b": heartbeat\n\n", answers=False)


def serve_events(service: Service, sock: Any, name: str, topics: list[str], after: Id | None) -> None:
    """Send events on a connection that is ours. Parks: until it ends."""
    with service.client(sock, EVENTS, name) as client:
        subscriptions = Subscriptions(service, client)
        try:
            subscriptions.add(topics, after, lambda missed: HEAD + hello_event(missed))
            while sock.recv(READ_SIZE):
                pass  # a client has nothing to say here
        except Refused as refused:
            client.write(refusal(refused))
        except OSError:
            pass
        finally:
            subscriptions.end()
