"""A real gunicorn in a process of its own, with our worker; its log and what the app prints go to a file."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).parents[2]
APP = "tests.integrations.served:app"
PATIENCE = 60.0
"""Seconds after which what should come does not; the machine may be busy."""


HOOKS = """
def post_worker_init(worker):
    worker.log.info("Worker up: %s", worker.pid)

def pre_request(worker, request):
    worker.log.info("before %s", request.path)

def post_request(worker, request, environ, response):
    worker.log.info("after %s: %s", request.path, response.status)

def worker_abort(worker):
    worker.log.info("aborted %s", worker.pid)

def worker_exit(server, worker):
    worker.log.info("left %s", worker.pid)
"""


class Gunicorn:
    """A master with its workers. ``options`` are gunicorn's; ``launcher``: those of Python's that it is run by.

    ``before``: the words of the command up to those.
    """

    def __init__(
        self,
        log: Path,
        *options: str,
        app: str = APP,
        hooks: str = "",
        kind: str = "dhaga.integrations.gunicorn.Worker",
        launcher: tuple[str, ...] = (),
        before: tuple[str, ...] = (sys.executable,),
        **environment: str,
    ) -> None:
        self.log = log
        settings = log.with_name("settings.py")
        settings.write_text(HOOKS + hooks)
        ours = ["-k", kind, "--no-control-socket", "-c", str(settings)]
        command = [*before, *launcher, "-m", "gunicorn", *ours, *options, app]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{log.parent}", **environment},
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # ---- what it says

    def said(self, pattern: str) -> list[str]:
        """Return what has been written that matches, each time."""
        return re.findall(pattern, self.log.read_text(errors="replace"))

    def says(self, pattern: str, times: int = 1) -> list[str]:
        """Wait until it is written."""
        self.await_(lambda: len(self.said(pattern)) >= times, pattern)
        return self.said(pattern)

    def await_(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come:\n{self.log.read_text()}"
            time.sleep(0.01)

    # ---- where it is

    @property
    def url(self) -> str:
        """Where it listens first, once it does."""
        return self.says(r"Listening at: (https?://[^ ,]+)")[0]

    @property
    def address(self) -> tuple[str, int]:
        """The same for a socket."""
        host, port = self.url.rpartition("/")[2].split(":")
        return host, int(port)

    def workers(self) -> list[int]:
        """Return the processes that have come up, the last one last."""
        return [int(pid) for pid in self.says(r"Worker up: (\d+)")]

    # ---- asking

    def get(self, path: str = "/", **options: Any) -> requests.Response:
        """Ask over a connection of its own."""
        return requests.get(self.url + path, timeout=PATIENCE, **options)

    @contextlib.contextmanager
    def asked(self, path: str, head: str = "Connection: close\r\n") -> Iterator[socket.socket]:
        """Send a request, and do not wait for its answer."""
        with socket.create_connection(self.address, PATIENCE) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n{head}\r\n".encode())
            yield sock

    # ---- its end

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        """Wait for its end. Returns: the exit status."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Gunicorn:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)


def rest(sock: socket.socket) -> bytes:
    """Receive to the end. With OpenSSL 3.6 the standard's TLS over a Unix socket ends by EPIPE if no alert came."""
    parts = []
    with contextlib.suppress(BrokenPipeError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def until(sock: socket.socket, end: bytes) -> bytes:
    """Receive until that has come."""
    got = b""
    while not got.endswith(end):
        part = sock.recv(65536)
        assert part, got
        got += part
    return got
