"""Programs that serve with several processes. Tests wait for the lines that the programs log."""

from __future__ import annotations

import os
import pathlib
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

from tests.kit.scripts import PATIENCE, ROOT


class Running:
    """A running master and its log so far. At the end of the block, the master and its workers are killed.

    ``command``: a program with its arguments, or options of this Python.
    """

    def __init__(self, directory: pathlib.Path, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            command if os.path.isabs(command[0]) else [sys.executable, "-u", *command],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            # no bytecode: a module changes within a second
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.log: list[str] = []
        self.rest = b""
        self.selector = selectors.DefaultSelector()
        assert self.process.stderr is not None
        self.selector.register(self.process.stderr, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType) -> None:
        if error is not None:
            error.add_note("the log:\n" + "\n".join(self.log))
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.selector.close()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def line(self) -> str | None:
        """Return the next line of the log; None once all processes that could write have ended."""
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self.rest:
            assert self.selector.select(deadline - time.monotonic()), "nothing more is logged"
            assert self.process.stderr is not None
            data = os.read(self.process.stderr.fileno(), 65536)
            if not data:
                return None
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        self.log.append(line.decode())
        return self.log[-1]

    def wait_for(self, pattern: str, times: int = 1) -> list[str]:
        """Wait until the log has matched a pattern ``times`` times. Returns: the group's text of each match."""
        found: list[str] = []
        while len(found) < times:
            line = self.line()
            assert line is not None, f"the log ends without {pattern!r}"
            found += re.findall(pattern, line)
        return found

    def begin(self, workers: int = 1) -> list[int]:
        """Wait until the workers serve; return their pids."""
        (addresses,) = self.wait_for(r"listens at (?:https?://)?(.+)")
        self.address = addresses.partition(",")[0]
        return self.serving(workers)

    def serving(self, workers: int = 1) -> list[int]:
        return [int(pid) for pid in self.wait_for(r"worker (\d+) serves", workers)]

    def end(self) -> int:
        """Wait until the master and all workers have ended. Returns: the master's exit status."""
        while self.line() is not None:
            pass
        return self.process.wait(PATIENCE)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def client(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE)

    def ask(self, question: bytes = b"?") -> bytes:
        """Send a question over a new connection, and return the answer. Raises: OSError if there is no answer."""
        with self.client() as sock:
            sock.sendall(question)
            answer = sock.recv(1000)
        if not answer:
            raise ConnectionError("there was no answer")
        return answer

    def zombies(self) -> list[str]:
        """Return the children of the master that have ended and were not waited for."""
        states = subprocess.run(["ps", "-o", "stat=", "--ppid", str(self.process.pid)], stdout=subprocess.PIPE).stdout
        return [state for state in states.decode().split() if state.startswith("Z")]


class Load:
    """Threads that call ``ask`` again and again until the end of the block. Answers and errors are kept."""

    def __init__(self, ask: Any, threads: int = 2) -> None:
        self.ask = ask
        self.answers: list[Any] = []
        self.errors: list[Exception] = []
        self.over = False
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def run(self) -> None:
        while not self.over:
            try:
                self.answers.append(self.ask())
            except Exception as error:
                self.errors.append(error)

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for thread in self.threads:
            thread.join()


# ---- programs of masters

PROGRAM = """
import logging, sys
from math import inf
from dhaga.servers._prefork import Master
from dhaga.servers import TCPServer

logging.basicConfig(level=logging.INFO, format="%(message)s")

def set_up():
    import served
    return lambda where: TCPServer(served.handler, where, **getattr(served, "OPTIONS", {{}}))

sys.exit(Master(set_up, ("127.0.0.1", 0), {options}).run())
"""


VERSION = """
def handler(sock, peer):
    if sock.recv(100) == b"wait":
        sock.sendall(b"waiting")
        sock.recv(100)
    sock.sendall(b"{version}")
"""


PID = """
import os
def handler(sock, peer):
    sock.recv(100)
    sock.sendall(b"%d" % os.getpid())
"""


def start(directory: pathlib.Path, served: str = PID, **options: Any) -> Running:
    text = ", ".join(f"{name}={value!r}" for name, value in {"grace": 20, **options}.items())
    (directory / "program.py").write_text(PROGRAM.format(options=text))
    (directory / "served.py").write_text(served)
    return Running(directory, "program.py")


def version(number: int | str) -> str:
    return VERSION.format(version=number)


def wait_within(running: Running) -> socket.socket:
    """Return a connection whose handler waits for the next message."""
    sock = running.client()
    sock.sendall(b"wait")
    assert sock.recv(100) == b"waiting"
    return sock


HANGING = """
import os, time
print("importing", flush=True)
time.sleep(1000)
"""
