"""A gate at which tasks wait, each over a connection of its own, so that a test knows who waits at any moment."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

PATIENCE = 60
"""Seconds to wait for what is to come; a worker alone takes 13 to start where 20 processes want each core."""


class Visitor(NamedTuple):
    """One run of a task that has come to the gate."""

    name: str
    pid: int
    sock: socket.socket


class Gate:
    """Lets those through whose names have been let in. A run that ends otherwise loses its connection, and is gone."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.address: tuple[str, int] = self.listener.getsockname()
        self.come: list[Visitor] = []
        self.waiting: list[Visitor] = []
        self.prefixes: list[str] = []
        self.changed = threading.Condition()
        self.bell, self.rope = socket.socketpair()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.bell, selectors.EVENT_READ, None)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *error: object) -> None:
        self.rope.close()
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    # ---- for the test

    def open(self, prefix: str = "") -> None:
        """Let those through whose names begin so, now and later."""
        with self.changed:
            self.prefixes.append(prefix)
            for visitor in self.waiting:
                self.let_through(visitor)

    def comers(self, prefix: str, count: int) -> list[Visitor]:
        """Wait until so many have come, whether they still wait or not; return all that have."""
        return self.wait_for(lambda: self.come, prefix, lambda found: len(found) >= count)

    def waiters(self, prefix: str, count: int) -> list[Visitor]:
        """Wait until exactly so many wait at the same time."""
        return self.wait_for(lambda: self.waiting, prefix, lambda found: len(found) == count)

    def wait_for(
        self, those: Callable[[], list[Visitor]], prefix: str, enough: Callable[[list[Visitor]], bool]
    ) -> list[Visitor]:
        def found() -> list[Visitor]:
            return [visitor for visitor in those() if visitor.name.startswith(prefix)]

        with self.changed:
            assert self.changed.wait_for(lambda: enough(found()), PATIENCE), f"at the gate: {names(found())}"
            return found()

    # ---- its thread

    def run(self) -> None:
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    return
                key.data()

    def accept(self) -> None:
        sock, _ = self.listener.accept()
        self.selector.register(sock, selectors.EVENT_READ, lambda: self.read(sock))

    def read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(1000)
        except ConnectionError:
            data = b""
        with self.changed:
            if data:
                name, pid = data.decode().split()
                visitor = Visitor(name, int(pid), sock)
                self.come.append(visitor)
                self.waiting.append(visitor)
                if name.startswith(tuple(self.prefixes)):
                    self.let_through(visitor)
            else:
                self.waiting = [visitor for visitor in self.waiting if visitor.sock is not sock]
                self.selector.unregister(sock)
                sock.close()
            self.changed.notify_all()

    def let_through(self, visitor: Visitor) -> None:
        try:
            visitor.sock.sendall(b"!")
        except ConnectionError:
            pass


def names(visitors: list[Visitor]) -> list[str]:
    return sorted(visitor.name for visitor in visitors)
