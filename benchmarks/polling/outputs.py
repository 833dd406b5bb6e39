"""The outputs of the callers, which are dhagas or threads. At its end, each output reports what has arrived.

A *file* has no buffer; a dhaga's writes to it are offloaded. A *socket* is read by another process; writers wait while
the socket's buffer is full.
"""

import builtins
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import dhaga
import dhaga.queue
import dhaga.socket
import dhaga.threading

LINE = b"x" * 99 + b"\n"
READER = """
import os
os.write(1, b"!")
size = ends = 0
while data := os.read(0, 1 << 20):
    size += len(data)
    ends += data.count(b"\\n")
print(size, ends)
"""

Write = Callable[[bytes], object]


@dataclass(frozen=True)
class Library:
    """The modules of threads, queues, files and sockets for one kind of callers."""

    threading: Any
    queue: Any
    socket: Any
    open: Any
    sleep: Callable[[float], object]
    give_way: Callable[[], object]  # called between two lines; threads are preempted anyway


LIBRARIES = {
    "dhaga": Library(dhaga.threading, dhaga.queue, dhaga.socket, dhaga.open, dhaga.sleep, dhaga.sleep),
    "threads": Library(threading, queue, socket, builtins.open, time.sleep, int),
}

Output = tuple[Write, list[int]]
"""The function that writes, and a list that gets the numbers of bytes and lines that have arrived."""


@contextmanager
def _file(library: Library) -> Iterator[Output]:
    arrived: list[int] = []
    with tempfile.TemporaryDirectory(prefix="dhaga-polling-") as folder:
        path = Path(folder) / "output"
        with library.open(path, "ab", buffering=0) as file:
            yield file.write, arrived
        data = path.read_bytes()
        arrived += [len(data), data[len(LINE) - 1 :: len(LINE)].count(b"\n")]


@contextmanager
def _socket(library: Library) -> Iterator[Output]:
    arrived: list[int] = []
    mine, its = library.socket.socketpair()
    with its:
        command = [sys.executable, "-c", READER]  # in a new process group, so that Ctrl-C does not reach it
        reader = subprocess.Popen(command, stdin=its, stdout=PIPE, stderr=DEVNULL, process_group=0)
    with reader, mine:  # the process reads until mine is closed
        assert reader.stdout is not None
        reader.stdout.read(1)  # the process has started
        yield mine.sendall, arrived
        mine.close()
        arrived += map(int, reader.stdout.read().split())


OUTPUTS = {"file": _file, "socket": _socket}
