"""What is attacked: servers in processes of their own, each with its ordinary client.

Another server joins by a subclass of ``Target`` with ``command``, ``exchange`` and ``attacks``, named in ``TARGETS`` or
passed to ``measure.measure``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

ROOT = Path(__file__).parents[2]
PATIENCE = 30.0
"""Seconds after which a server that does not come up, or answers nothing, has failed; the machine may be busy."""

HTTP_ATTACKS = (
    *("pipelining", "pipelining_unread", "blank_lines", "small_chunks", "heads_by_bytes", "fast_upload"),
    *("fast_download", "malformed_requests", "trickling_bodies", "connections", "bursts", "resets"),
)
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Target:
    """A server that is started, attacked and asked. ``attacks``: names in ``attacks``, or ``module:function``."""

    name: ClassVar[str]
    attacks: ClassVar[tuple[str, ...]]
    forbidden: ClassVar[tuple[str, ...]] = ("Traceback", "WORKER TIMEOUT")
    """What the server must not write while it is attacked: a client can fill a disk with it."""

    def command(self, port: int) -> list[str]:
        """Return the arguments after the interpreter's name that serve on a port of 127.0.0.1."""
        raise NotImplementedError

    def exchange(self, sock: socket.socket) -> bool:
        """Do once what an ordinary client does, over a fresh connection. Returns: whether the answer is right."""
        raise NotImplementedError

    # ---- a running one

    @contextlib.contextmanager
    def running(self) -> Iterator[tuple[str, int]]:
        """Run the server. Gives its address. Raises: AssertionError if it dies or writes what is forbidden."""
        with tempfile.TemporaryFile() as log:
            address = "127.0.0.1", free_port()
            process = subprocess.Popen(
                [sys.executable, *self.command(address[1])],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self.await_start(process, address)
                yield address
                assert process.poll() is None, f"{self.name} has ended with {process.poll()}"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                log.seek(0)
                written = log.read().decode(errors="replace")
            assert not any(word in written for word in self.forbidden), f"{self.name} has written\n{written[-3000:]}"

    def await_start(self, process: subprocess.Popen[bytes], address: tuple[str, int]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError):
                self.ask(address)
                return
            assert process.poll() is None and time.monotonic() < deadline, f"{self.name} does not come up"
            time.sleep(0.05)

    def ask(self, address: tuple[str, int], patience: float = PATIENCE) -> float:
        """Make one ordinary exchange. Returns: the seconds it took. Raises: OSError, AssertionError."""
        began = time.monotonic()
        with socket.create_connection(address, patience) as sock:
            assert self.exchange(sock), f"{self.name} has answered wrongly"
        return time.monotonic() - began


class HTTPTarget(Target):
    attacks = HTTP_ATTACKS

    def exchange(self, sock: socket.socket) -> bool:
        sock.sendall(REQUEST)
        return to_the_end(sock).startswith(b"HTTP/1.1 200 OK\r\n")


class Serve(HTTPTarget):
    """``python -m dhaga serve``."""

    name = "serve"
    app = "app"

    def command(self, port: int) -> list[str]:
        return ["-m", "dhaga", "serve", f"tests.hostile.served:{self.app}", "--bind", f"127.0.0.1:{port}"]


class Chat(Serve):
    """The same, with an app that answers WebSockets by simple-websocket."""

    name = "chat"
    attacks = ("websocket_messages", "websocket_unread", "websocket_pings", "websocket_fragments")
    app = "chat"


class Gunicorn(HTTPTarget):
    """gunicorn with our worker. ``--timeout 5``: a worker that misses its heartbeat is killed, and says so."""

    name = "gunicorn"

    def command(self, port: int) -> list[str]:
        worker = ["-k", "dhaga.integrations.gunicorn.Worker", "--no-control-socket", "--timeout", "5"]
        return ["-m", "gunicorn", *worker, "-b", f"127.0.0.1:{port}", "tests.hostile.served:app"]


class Echo(Target):
    """A bare ``TCPServer`` whose handler works for a moment for each piece."""

    name = "tcp"
    attacks = ("echo_flood", "sink_flood", "connections", "bursts", "resets")

    def command(self, port: int) -> list[str]:
        return ["-m", "tests.hostile.served", str(port)]

    def exchange(self, sock: socket.socket) -> bool:
        sock.sendall(b"ping")
        return sock.recv(4) == b"ping"


TARGETS: dict[str, type[Target]] = {kind.name: kind for kind in (Serve, Chat, Gunicorn, Echo)}


def to_the_end(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
