"""A client of the replicas: each read and each write involves a majority of them. Plain threads and sockets.

Two majorities have a replica in common, so a read finds the last acknowledged write. A failed write may be on a few
replicas. So a read writes the value that it has found to a majority before it returns the value: a later read must not
find an older value. (H. Attiya, A. Bar-Noy, D. Dolev: Sharing Memory Robustly in Message-Passing Systems, 1995.)
"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Sequence
from typing import Any, Final

from .store import PORT, Version

SECONDS: Final = 2.0
"""A request that takes longer has failed."""


class Unavailable(Exception):
    """Too few replicas have answered. A write may have happened, or not."""


class Client:
    """A client. ``forgets``: the bug: a read returns what it has found, and leaves it where it is."""

    def __init__(self, name: str, replicas: Sequence[str], forgets: bool = False) -> None:
        self.name = name
        self.replicas = replicas
        self.forgets = forgets

    def put(self, key: str, value: str) -> Version:
        """Write a value. Returns: its version. Raises: Unavailable."""
        (number, _), _ = self.latest(key)
        version = number + 1, self.name
        self.ask_most({"key": key, "version": version, "value": value})
        return version

    def get(self, key: str) -> tuple[Version, str]:
        """Read a value. Returns: its version and the value. Raises: Unavailable."""
        version, value = self.latest(key)
        if not self.forgets:
            self.ask_most({"key": key, "version": version, "value": value})
        return version, value

    def latest(self, key: str) -> tuple[Version, str]:
        """Return the latest version that most replicas know of, with its value."""
        replies = [((number, name), value) for (number, name), value in self.ask_most({"key": key})]
        return max(replies)

    def ask_most(self, request: dict[str, Any]) -> list[Any]:
        """Send a request to all replicas. Returns: the replies of most of them, the first ones. Raises: Unavailable."""
        replies: queue.Queue[Any] = queue.Queue()
        for replica in self.replicas:
            threading.Thread(target=ask, args=(replica, request, replies), daemon=True).start()
        found: list[Any] = []
        for _ in self.replicas:
            reply = replies.get()
            if reply is not None:
                found.append(reply)
            if len(found) > len(self.replicas) // 2:
                return found
        raise Unavailable(f"{len(found)} of {len(self.replicas)} replicas have answered")


def ask(replica: str, request: dict[str, Any], replies: queue.Queue[Any]) -> None:
    """Ask one replica; its reply goes into the queue, None if there is none."""
    try:
        with socket.create_connection((replica, PORT), timeout=SECONDS) as sock, sock.makefile("rwb") as file:
            file.write(json.dumps(request).encode() + b"\n")
            file.flush()
            line = file.readline()
        replies.put(json.loads(line) if line.endswith(b"\n") else None)
    except OSError:
        replies.put(None)
