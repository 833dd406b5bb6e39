"""A server that speaks as much of TDS 7.4 as a client needs to log in, and to execute batches without results."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

PRELOGIN, LOGIN, ANSWER = 0x12, 0x10, 0x04
DONE = b"\xfd" + struct.pack("<HHQ", 0, 0, 0)


def packet(payload: bytes) -> bytes:
    return struct.pack(">BBHHBB", ANSWER, 1, len(payload) + 8, 0, 1, 0) + payload


def prelogin() -> bytes:
    """Return the version, and that nothing is encrypted."""
    options = struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF)
    return packet(options + bytes([15, 0, 0, 0, 0, 0]) + b"\x02")


def login_ack() -> bytes:
    name = "Microsoft SQL Server".encode("utf-16-le")
    body = b"\x01" + bytes([0x74, 0, 0, 4]) + bytes([len(name) // 2]) + name + bytes([15, 0, 0, 0])
    return packet(b"\xad" + struct.pack("<H", len(body)) + body + DONE)


class Server:
    """Listens while its block runs. ``answer``: called with each batch, or LOGIN, before it is answered."""

    def __init__(self, answer: Callable[[str], object]) -> None:
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]

    def accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed
                return
            self.threads.append(threading.Thread(target=self.serve, args=(client,), daemon=True))
            self.threads[-1].start()

    def serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as file, suppress(ConnectionError):
            body = b""
            while head := file.read(8):
                kind, last, length = struct.unpack(">BBH", head[:4])
                body += file.read(length - 8)
                if not last & 1:
                    continue
                if kind != PRELOGIN:
                    self.answer("LOGIN" if kind == LOGIN else body.decode("utf-16-le", "replace"))
                client.sendall({PRELOGIN: prelogin, LOGIN: login_ack}.get(kind, lambda: packet(DONE))())
                body = b""

    def __enter__(self) -> Server:
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()
