"""What the endpoints of a server share: its broker, tokens and limits, its clients, and their heartbeat."""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from .broker import DEFAULTS, LAP, Broker, Limits, Missed
from .messages import Id, Message, checked_name, checked_text
from .runtime import socket, threading, time
from .socket_clients import SENDING_BUFFER, Client, ClientLimits, Format, Policy
from .tokens import Tokens

HEARTBEAT: Final = 15.0
"""Seconds: proxies and NATs forget an idle connection after 30 at the earliest."""

ABANDONED: Final = 5.0
"""Seconds after which a poll looks whether its client has left: each look is a system call and two switches."""

SILENT_BEATS: Final = 2.5
"""Heartbeats after which a client is gone that has not answered: it was asked twice."""

Publish = Callable[[str, str], Id]


class Poll:
    """A subscriber that waits for one message to come, and then reads the history."""

    def __init__(self) -> None:
        self.arrived = threading.Event()

    def deliver(self, message: Message) -> None:
        """Note that there is something."""
        self.arrived.set()


class Service:
    """One server's state; `publish(topic, text)` is the broker's, or that of a link to others."""

    def __init__(
        self,
        limits: Limits = DEFAULTS,
        tokens: Tokens | None = None,
        *,
        policy: Policy = "disconnect",
        heartbeat: float = HEARTBEAT,
        leeway: float = 0.0,
    ) -> None:
        self.limits = limits
        self.tokens = tokens or Tokens({})
        self.heartbeat = heartbeat
        self.broker = Broker(limits, leeway)
        self.counts = self.broker.counts
        self.client_limits = ClientLimits(limits.queue, policy, self.counts)
        self.posting: Publish = self.broker.publish
        # In the order of their coming: a set of objects has another order in each run.
        self.clients: dict[Client, None] = {}
        self.polls: dict[Poll, None] = {}
        self.stopped = threading.Event()
        self.heart = threading.Thread(target=self.beat, name="heart", daemon=True)

    def __repr__(self) -> str:
        return f"<Service of {len(self.clients)} clients and {self.broker!r}>"

    def start(self) -> None:
        """Begin to deliver, and to ask clients whether they are there."""
        self.broker.start()
        self.heart.start()

    def stop(self, timeout: float | None = None) -> None:
        """Deliver what was taken, then end every connection. Parks: meanwhile."""
        self.stopped.set()
        self.broker.close(timeout)
        for client in list(self.clients):
            client.close()
        for poll in list(self.polls):
            poll.arrived.set()
        self.heart.join(timeout)

    def publish(self, name: str, data: bytes) -> Id:
        """Take a message from outside. Parks: while the courier, or Redis, is behind. Raises: Refused."""
        return self.posting(checked_name(name), checked_text(data, self.limits.message))

    @contextmanager
    def client(self, sock: Any, format: Format, name: str) -> Iterator[Client]:
        """Register a client while its endpoint serves it."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING_BUFFER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(sock, format, name, self.client_limits)
        self.clients[client] = None
        if self.stopped.is_set():  # stop() has not seen it
            client.close()
        try:
            yield client
        finally:
            del self.clients[client]
            client.close()

    def poll(self, names: list[str], after: Id, timeout: float, gone: Callable[[], bool]) -> Missed:
        """Wait for messages after an id. Parks: until there are any. Returns: them, or none after the time.

        `gone()` is asked now and then whether the client still wants them.
        """
        poll = Poll()
        missed = self.broker.subscribe(poll, names, after)
        self.polls[poll] = None
        try:
            if missed.messages or missed.gap or self.stopped.is_set():
                return missed
            deadline = clock.monotonic() + timeout
            while not poll.arrived.wait(max(0.0, min(ABANDONED, deadline - clock.monotonic()))):
                if clock.monotonic() >= deadline or gone():
                    break
            return self.broker.read(names, after)
        finally:
            del self.polls[poll]
            self.broker.unsubscribe(poll, names)

    # ---- the heartbeat

    def beat(self) -> None:
        """Ping each client at every beat, and end those that do not answer, or do not take what is sent."""
        while not self.stopped.wait(self.heartbeat):
            since = clock.monotonic() - SILENT_BEATS * self.heartbeat
            for number, client in enumerate(list(self.clients), 1):
                self.look_after(client, since)
                if not number % LAP:
                    time.sleep(0)

    def look_after(self, client: Client, since: float) -> None:
        if client.is_silent(since):
            self.counts["silent"] += 1
            client.drop()
        elif client.queue is None:
            client.write(client.format.ping)

    # ---- for people

    def status(self) -> dict[str, Any]:
        """Tell what there is, and what has been so far."""
        endpoints = Counter(client.format.name for client in list(self.clients))
        return {
            "clients": {**endpoints, "polls": len(self.polls)},
            "topics": self.broker.status(),
            "last": str(self.broker.last),
            **{name: self.counts[name] for name in ("published", "delivered", "dropped", "disconnected", "silent")},
        }
