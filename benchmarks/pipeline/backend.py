"""The backend in a separate process: `backend.c`, compiled into build/, or the same in Python if C cannot be compiled.

`python -m benchmarks.pipeline.backend MILLISECONDS` runs the Python version, which answers about 20,000 calls a second.
"""

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import compiled, compiler, cpu_seconds
from benchmarks.pipeline.client import Connection

SOURCE = Path(__file__).with_name("backend.c")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 11\r\n\r\n%010d\n"


@dataclass(frozen=True)
class Backend:
    """A running backend."""

    port: int
    pid: int

    def calls(self) -> int:
        """Ask the backend for the number of calls that it has answered. Raises: RuntimeError if it has ended."""
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as sock:
                return int(Connection(sock).call())
        except OSError as error:
            raise RuntimeError("the backend has ended") from error

    def cpu(self) -> float:
        """Return the CPU time used so far, in seconds."""
        return cpu_seconds(self.pid) or 0.0


def source() -> str:
    """Return the name of the source file from which the backend is made on this machine."""
    return SOURCE.name if compiler() else Path(__file__).name


def command_of(milliseconds: float) -> list[str]:
    """Return the command that starts a backend."""
    program = compiled(SOURCE)
    command = [sys.executable, "-m", "benchmarks.pipeline.backend"] if program is None else [str(program)]
    return [*command, str(milliseconds)]


@contextmanager
def answering(milliseconds: float, cpu: int | None = None) -> Iterator[Backend]:
    """Run a backend on one CPU. Raises: RuntimeError if it does not start."""
    command = command_of(milliseconds)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if cpu is not None:
                os.sched_setaffinity(process.pid, {cpu})
            assert process.stdout is not None
            port = process.stdout.readline()
            if not port:
                raise RuntimeError(f"the backend has ended with status {process.wait()}")
            yield Backend(int(port), process.pid)
        finally:
            process.kill()


# ---- in the process of the Python backend


class Client(asyncio.Protocol):
    """One connection to the Python backend."""

    def __init__(self, seconds: float, numbers: Iterator[int]) -> None:
        self.seconds = seconds
        self.numbers = numbers
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *heads, self.received = (self.received + data).split(b"\r\n\r\n")
        for _ in heads:
            asyncio.get_running_loop().call_later(self.seconds, self.answer)

    def answer(self) -> None:
        self.transport.write(ANSWER % next(self.numbers))


async def serve(seconds: float) -> None:
    """Answer calls until the process is killed."""
    numbers = itertools.count(1)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(seconds, numbers), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1e3))
