"""A relay between client and server that counts what passes, and cuts or holds it at a chosen byte."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable


class Relay:
    """Forwards connections to one address. `up` and `down` count the bytes from and to the clients."""

    def __init__(self, target: tuple[str, int], delay: float = 0.0) -> None:
        self.target = target
        self.delay = delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.up = 0
        self.down = 0
        self.connections = 0
        self.cuts = 0
        self.held = threading.Event()
        self._cut_at: list[int] = []
        self._close_when_cut = False
        self._lose_reply_at: int | None = None
        self._hold_at: int | None = None
        self.withheld = 0
        self._words: bytes | None = None
        self._passing = 0
        self._go_on = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closing = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *error: object) -> None:
        self._closing = True
        self.release()
        socket.create_connection(self.address).close()
        self._threads[0].join()
        self.cut()
        for thread in self._threads:
            thread.join()
        self.listener.close()

    def cut_at(self, *counts: int) -> None:
        """Cut all connections each time so many bytes in all have gone up."""
        self._cut_at = sorted(counts)

    def close_at(self, count: int) -> None:
        """Cut all connections after so many bytes, and let no new one through."""
        self._cut_at = [count]
        self._close_when_cut = True

    def lose_reply_at(self, count: int) -> None:
        """Cut all connections when the other end answers what ended after so many bytes."""
        self._lose_reply_at = count

    def hold_at(self, count: int) -> None:
        """Let nothing more go up after so many bytes, until `release`; `held` tells when."""
        self._hold_at = count

    def withhold(self, words: bytes, after: int) -> None:
        """Let `after` requests with these words go up, and hold each later one until `release`: `withheld` counts them.

        Those of a client that goes meanwhile are dropped.
        """
        self._words, self._passing = words, after

    def release(self) -> None:
        """Let what was held go on."""
        self._hold_at = None
        self._go_on.set()

    def cut(self) -> None:
        """Cut all connections now."""
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self) -> None:
        while True:
            near, _ = self.listener.accept()
            if self._closing:
                near.close()
                return
            if self._close_when_cut and self.cuts:
                near.close()
                continue
            try:
                far = socket.create_connection(self.target)
            except OSError:
                near.close()
                continue
            self.connections += 1
            with self._lock:
                self._sockets |= {near, far}
            ended = threading.Semaphore(0)
            for pump in (self._up, self._down):
                thread = threading.Thread(target=self._pump, args=(pump, near, far, ended))
                self._threads.append(thread)
                thread.start()

    def _pump(
        self,
        pump: Callable[[socket.socket, socket.socket], None],
        near: socket.socket,
        far: socket.socket,
        ended: threading.Semaphore,
    ) -> None:
        try:
            pump(near, far)
        except OSError:
            pass
        for sock in (near, far):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        ended.release()
        if pump == self._up:  # the last one closes
            ended.acquire()
            ended.acquire()
            with self._lock:
                self._sockets -= {near, far}
            near.close()
            far.close()

    def _up(self, near: socket.socket, far: socket.socket) -> None:
        while data := near.recv(65536):
            time.sleep(self.delay)
            if self._words is not None and self._words in data and not self._may_pass(near):
                return
            with self._lock:
                passed, cutting = self._until(self._cut_at[0] if self._cut_at else None, data)
                now, holding = self._until(self._hold_at, passed)
                self.up += len(passed)
                if cutting:
                    self._cut_at.pop(0)
                    self.cuts += 1
            far.sendall(now)
            if holding:
                self.held.set()
                self._go_on.wait()
                far.sendall(passed[len(now) :])
            if cutting:
                self.cut()

    def _may_pass(self, near: socket.socket) -> bool:
        """Wait until what a client has sent may go up. Returns: False if the client has gone before that."""
        with self._lock:
            self._passing -= 1
            if self._passing >= 0:
                return True
            self.withheld += 1
        while not (passes := self._go_on.is_set()) and not has_gone(near):
            pass
        with self._lock:
            self.withheld -= 1
        return passes

    def _until(self, count: int | None, data: bytes) -> tuple[bytes, bool]:
        if count is None or self.up + len(data) < count:
            return data, False
        return data[: max(count - self.up, 0)], True

    def _down(self, near: socket.socket, far: socket.socket) -> None:
        while data := far.recv(65536):
            with self._lock:
                self.down += len(data)
                cutting = self._lose_reply_at is not None and self.up >= self._lose_reply_at
                if cutting:
                    self._lose_reply_at = None
                    self.cuts += 1
            if cutting:
                self.cut()
                return
            near.sendall(data)


def has_gone(client: socket.socket) -> bool:
    """Return whether the other end is closed, or closes within 10 ms."""
    try:
        return bool(select.select([client], [], [], 0.01)[0]) and not client.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
