"""Clients on sockets: how messages get to them, and what happens to those that are slow or gone.

The courier writes straight to a socket that has room. Where it has not, what is left waits in a queue, bounded, and a
writer of its own sends it. Each endpoint says what a client's bytes look like (`Format`).
"""

from __future__ import annotations

import struct
import time as clock
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from .messages import Id, Message
from .runtime import send_now, socket, threading

Policy = Literal["drop", "disconnect"]
SENDING_BUFFER: Final = 64 << 10
"""Bytes that the system may hold for a client; by itself it would take megabytes before a client counts as slow."""

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: to close is to reset."""


@dataclass(frozen=True)
class Format:
    """What an endpoint's clients are sent."""

    name: str
    message: Callable[[Message], bytes]
    gap: Callable[[Id | None, int | None], bytes]  # after which id, and how many messages, as far as that is known
    ping: bytes
    answers: bool  # whether clients answer a ping


@dataclass(frozen=True)
class ClientLimits:
    """What all clients of a server share: the bound of their queues, what happens beyond it, and the counts."""

    queue: int  # messages
    policy: Policy
    counts: Counter[str]


class Client:
    """One connected client. Where it has nothing queued, `queue` is None, and nothing of it runs but its reader."""

    __slots__ = (
        "allowance", "caught_up", "client_limits", "closed", "format", "heard", "lock", "lost", "name", "queue", "sock",
    )  # fmt: skip

    def __init__(self, sock: Any, format: Format, name: str, client_limits: ClientLimits) -> None:
        self.sock = sock
        self.format = format
        self.name = name
        self.client_limits = client_limits
        self.lock = threading.Lock()
        self.queue: deque[bytes] | None = None
        self.allowance = 0  # how many more than the limit may be queued just now
        self.caught_up: Any = None  # a condition on the lock, once a command has waited until the allowance is used up
        self.lost = 0
        self.heard = clock.monotonic()  # when it last sent something, or its writer got on
        self.closed = False

    def __repr__(self) -> str:
        queued = 0 if self.queue is None else len(self.queue)
        return f"<Client {self.name} by {self.format.name}, {queued} queued{', closed' if self.closed else ''}>"

    # ---- sending

    def deliver(self, message: Message) -> None:
        """Send a message, or queue it. Parks: never for long."""
        frame = self.format.message
        data = message.frames.get(frame) or message.framed(frame)
        with self.lock:
            if not self.put(data):
                self.overflow(data)
        self.client_limits.counts["delivered"] += 1

    def write(self, data: bytes) -> None:
        """Send an answer or a ping; who asks much and reads little is shut out. Parks: never for long."""
        with self.lock:
            if not self.put(data):
                self.cut()

    def catch_up(self, subscribe: Callable[[], list[bytes]]) -> None:
        """Send what `subscribe()` gives, all of it before anything that is delivered from then on.

        That much may be queued above the limit: it is in the history, and takes no memory of its own. But once at a
        time: 18 bytes ask for a whole history, so a client that asks again gets it after it has read the last one.
        Parks: until then.
        """
        with self.lock:
            self.wait_until_caught_up()
            if self.closed:
                return
            data = subscribe()
            self.allowance = len(data)
            for item in data:
                self.put(item)
            if self.queue is None:
                self.allowance = 0

    def wait_until_caught_up(self) -> None:
        while self.allowance and not self.closed:
            self.caught_up = self.caught_up or threading.Condition(self.lock)
            self.caught_up.wait()

    def use_allowance(self, count: int) -> None:
        """Note that so many queued items have gone. From: within the lock."""
        self.allowance = max(0, self.allowance - count)
        if self.caught_up is not None and not self.allowance:
            self.caught_up.notify()

    def put(self, data: bytes) -> bool:
        """Send or queue bytes. Returns: False if too many are queued already."""
        if self.closed:
            return True
        if self.queue is None:
            self.send(data)
        elif len(self.queue) < self.client_limits.queue + self.allowance:
            self.queue.append(data)
        else:
            return False
        return True

    def send(self, data: bytes) -> None:
        try:
            sent = send_now(self.sock, data)
        except OSError:
            self.shut()
            return
        if sent < len(data):
            self.queue = deque([data[sent:]])
            self.heard = clock.monotonic()
            threading.Thread(target=self.write_queue, name=f"writer for {self.name}", daemon=True).start()

    def overflow(self, data: bytes) -> None:
        assert self.queue is not None
        if self.client_limits.policy == "disconnect":
            self.client_limits.counts["disconnected"] += 1
            self.cut()
        else:
            self.client_limits.counts["dropped"] += 1
            self.lost += 1
            self.queue.popleft()
            self.queue.append(data)

    def write_queue(self) -> None:
        """Send what is queued, until nothing is. Parks: while the client does not read."""
        try:
            while data := self.next_queued():
                self.sock.sendall(data)
                self.heard = clock.monotonic()
        except OSError:
            with self.lock:
                self.shut()

    def next_queued(self) -> bytes | None:
        with self.lock:
            if self.closed or not self.queue:
                self.queue = None
                self.use_allowance(self.allowance)
                return None
            lost, self.lost = self.lost, 0
            if lost:
                return self.format.gap(None, lost)
            self.use_allowance(1)
            return self.queue.popleft()

    # ---- the end

    def shut(self) -> None:
        """End the connection; its reader sees that and leaves. What is queued is given up."""
        self.closed = True
        self.queue = None if self.queue is None else deque()
        self.use_allowance(self.allowance)
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def cut(self) -> None:
        """End the connection by a reset, which reaches also a client that only writes.

        After a FIN alone, the system goes on telling such a client to wait, for a minute, where its window was closed.
        """
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        except OSError:
            pass
        self.shut()

    def close(self) -> None:
        """End the connection, when all that was sent has gone. From: anywhere but within a delivery."""
        with self.lock:
            self.shut()

    def drop(self) -> None:
        """End the connection at once. From: anywhere but within a delivery."""
        with self.lock:
            self.cut()

    def is_silent(self, since: float) -> bool:
        """Return whether it was silent since then; for one that does not answer, whether its writer is stuck."""
        return self.heard < since and (self.format.answers or self.queue is not None)
