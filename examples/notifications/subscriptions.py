"""What one client on a socket follows, whatever its endpoint."""

from __future__ import annotations

from collections.abc import Callable

from .broker import Missed
from .messages import Id, Refused
from .service import Service
from .socket_clients import Client


class Subscriptions:
    """A client's topics; what it has missed of them is sent before what comes."""

    __slots__ = ("client", "service", "topics")

    def __init__(self, service: Service, client: Client) -> None:
        self.service = service
        self.client = client
        self.topics: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Subscriptions of {self.client!r} to {', '.join(self.topics) or 'nothing'}>"

    def add(self, names: list[str], after: Id | None, hello: Callable[[Missed], bytes]) -> None:
        """Follow topics: send `hello(missed)`, what has come after an id, and what comes. Raises: Refused."""
        limit = self.service.limits.subscriptions
        if len(self.topics) + len(names) > limit:
            raise Refused(400, f"{len(self.topics) + len(names)} topics are too many: a client may follow {limit}")

        def subscribe() -> list[bytes]:
            missed = self.service.broker.subscribe(self.client, names, after)
            self.topics += tuple(names)
            format = self.client.format
            start = hello(missed) + (format.gap(after, None) if missed.gap else b"")
            return [start, *(message.framed(format.message) for message in missed.messages)]

        self.client.catch_up(subscribe)

    def remove(self, name: str) -> None:
        """Follow a topic no more. Raises: Refused."""
        if name not in self.topics:
            raise Refused(404, "that topic is not subscribed to")
        self.service.broker.unsubscribe(self.client, [name])
        self.topics = tuple(topic for topic in self.topics if topic != name)

    def end(self) -> None:
        """Take the client off all its topics."""
        self.service.broker.unsubscribe(self.client, self.topics)
        self.topics = ()
