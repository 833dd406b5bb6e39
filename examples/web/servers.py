"""Three ways to serve the app, as command lines, and their processes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

APP: Final = "examples.web.app:app"
THREADS: Final = 200
"""As many as one would give a process; `compare --threads` shows others."""

MOST: Final = 5000  # connections at once
GUNICORN: Final = ["gunicorn", APP, "--worker-connections", str(MOST), "--backlog", "4096", "--log-level", "warning"]
WAYS: Final = {
    "threads": [*GUNICORN, "--worker-class", "gthread"],
    "serve": ["dhaga", "serve", APP, "--max-connections", str(MOST)],
    "gunicorn": [*GUNICORN, "--worker-class", "dhaga.integrations.gunicorn.Worker"],
}
PATIENCE: Final = 30.0  # seconds in which a process comes up, or ends


def command_of(way: str, place: str, threads: int = THREADS) -> list[str]:
    """Return the command line that serves the app at HOST:PORT."""
    number = ["--threads", str(threads)] if way == "threads" else []
    return [sys.executable, "-m", *WAYS[way], *number, "--bind", place]


def allow_connections() -> None:
    """Allow this process and those that it starts as many open files as they may have: two for each request."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def backend(seconds: float) -> Iterator[str]:
    """Run the backend in a process of its own, and give its URL."""
    command = [sys.executable, "-m", "examples.web.backend", "--port", "0", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextmanager
def served(way: str, port: int, behind: str, threads: int = THREADS) -> Iterator[int]:
    """Serve the app in one of the ways. Gives: the process group of the server. Raises: RuntimeError."""
    environment = {**os.environ, "BACKEND": behind}
    process = subprocess.Popen(command_of(way, f"127.0.0.1:{port}", threads), env=environment, start_new_session=True)
    try:
        wait_until_it_answers(process, f"http://127.0.0.1:{port}/")
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_until_it_answers(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(url, timeout=PATIENCE):
            return
        time.sleep(0.05)
    raise RuntimeError(f"no server answers at {url}: is the port free, and dhaga[examples] installed?")
