"""What callers of either kind write to, dhagas or threads; each output tells in the end what has arrived.

A *file* has no buffer; a dhaga's writes to it are offloaded. A *socket* is read by another process; when it is full,
its writers wait.
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
    """Where threads, queues, files and sockets come from."""

    threading: Any
    queue: Any
    socket: Any
    open: Any
    sleep: Callable[[float], object]
    give_way: Callable[[], object]  # between two lines; a thread is made to


LIBRARIES = {
    "dhaga": Library(dhaga.threading, dhaga.queue, dhaga.socket, dhaga.open, dhaga.sleep, dhaga.sleep),
    "threads": Library(threading, queue, socket, builtins.open, time.sleep, int),
}

Output = tuple[Write, list[int]]
"""What writes, and a list for how many bytes and how many lines have arrived."""


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
        command = [sys.executable, "-c", READER]  # in a group of its own: a Ctrl-C is not for it
        reader = subprocess.Popen(command, stdin=its, stdout=PIPE, stderr=DEVNULL, process_group=0)
    with reader, mine:  # it reads until mine is closed
        assert reader.stdout is not None
        reader.stdout.read(1)  # it has started
        yield mine.sendall, arrived
        mine.close()
        arrived += map(int, reader.stdout.read().split())


OUTPUTS = {"file": _file, "socket": _socket}
