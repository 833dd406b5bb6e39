"""The ways to make one durable write. Each is a function, and the priority of the dhaga that calls the function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import dhaga
from dhaga import HIGH, NORMAL, Priority
from dhaga._workers.switch_interval import SwitchInterval
from examples.wal import WriteAheadLog
from examples.wal.segments import write_durably

RECORD = 4096
RECORDS = 1024

Span = tuple[float, float]
"""The times at which a write began and ended, in the thread that made the write."""


@dataclass(frozen=True)
class WritePath:
    """One way to make a durable write."""

    name: str
    write: Callable[[], Span | None]
    priority: Priority = NORMAL
    short_interval: bool = (
        True  # Dhaga sets the interpreter's switch interval while a call is under way, as it always does
    )


class File:
    """A file whose records are overwritten in order, and again from the beginning.

    The file's size is fixed and its blocks are allocated. If a file grows, a thread of the kernel writes each new size
    to the file system's journal. On a busy machine this thread waits for a CPU, which is not measured here.
    """

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.size = RECORDS * RECORD
        write_durably(self.fd, bytes(self.size), 0)
        os.fsync(self.fd)
        self.record = os.urandom(RECORD)
        self.offset = 0

    def write(self) -> Span:
        """Write a record durably, with a single system call if the system has one."""
        began = perf_counter()
        write_durably(self.fd, self.record, self.offset)
        ended = perf_counter()
        self.offset = (self.offset + RECORD) % self.size
        return began, ended

    def write_and_sync(self) -> Span:
        """Write a record durably with two system calls, as is usual."""
        began = perf_counter()
        os.pwrite(self.fd, self.record, self.offset)
        os.fdatasync(self.fd)
        ended = perf_counter()
        self.offset = (self.offset + RECORD) % self.size
        return began, ended

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


INLINE, SHARED, DEDICATED = "inline", "shared offload", "dedicated thread"
URGENT, LOG = "dedicated + HIGH", "the log's append, HIGH"
TWO_CALLS, PLAIN_INTERVAL = "… by two system calls", "… Python's switch interval"
WAYS = (INLINE, SHARED, DEDICATED, URGENT, LOG, TWO_CALLS, PLAIN_INTERVAL)
"""The last two are `dedicated + HIGH`, each without one of the measures against waits for the interpreter lock."""


@contextmanager
def ways(directory: Path) -> Iterator[list[WritePath]]:
    """Open the files and start the threads of all write paths."""
    with ExitStack() as stack:
        file = File(directory / "records")
        stack.callback(file.close)
        pool = stack.enter_context(dhaga.OffloadPool("writes", threads=1))
        log = stack.enter_context(WriteAheadLog(directory / "log"))

        def append() -> None:
            log.append(file.record)

        yield [
            WritePath(INLINE, file.write),
            WritePath(SHARED, lambda: dhaga.offload(file.write)),
            WritePath(DEDICATED, lambda: pool.offload(file.write)),
            WritePath(URGENT, lambda: pool.offload(file.write), HIGH),
            WritePath(LOG, append, HIGH),
            WritePath(TWO_CALLS, lambda: pool.offload(file.write_and_sync), HIGH),
            WritePath(PLAIN_INTERVAL, lambda: pool.offload(file.write), HIGH, short_interval=False),
        ]


@contextmanager
def interval_of(way: WritePath | None) -> Iterator[None]:
    """Let Dhaga set the interpreter's switch interval, or prevent this for a way without ``short_interval``.

    Enter this context manager before any call is offloaded.
    """
    if way is None or way.short_interval:
        yield
        return
    former = SwitchInterval.adjust
    SwitchInterval.adjust = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        SwitchInterval.adjust = former  # type: ignore[method-assign]
