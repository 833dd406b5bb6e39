"""The one room that knows threads from dhagas.

Everything else gets a `Unit` and takes `unit.threading`, `unit.queue`, `unit.socket`, `unit.time` from it, as it would
import the standard modules: the two units differ in the imports, in who starts a worker, and in whether a long disk
operation has to be handed to an OS thread.

What is handed over (`unit.offload`): fsync, SQLite, and reading a store through on start. They take milliseconds and
would hold up every dhaga of the OS thread. Reading or writing one chunk (at most 256 KB, in the page cache some ten
microseconds) stays inline: handing it over costs more than it takes.
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Protocol

DEFAULT_THREADS: Final = {"threads": 32, "dhagas": 4}
DEFAULT_DHAGAS: Final = 32  # per thread


class Task(Protocol):
    """What has been started: a thread or a dhaga."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, at most so many seconds."""

    def is_alive(self) -> bool:
        """Tell whether it has not ended yet."""


class Crew(Protocol):
    """Starts functions on a number of OS threads."""

    def start(self, fn: Callable[..., object], *args: object) -> Task:
        """Run a function beside the caller."""

    def stop(self, timeout: float) -> None:
        """End what still runs, as far as this unit can."""


@dataclass(frozen=True)
class Unit:
    """A unit of concurrency: the modules to use it with, and how to start it."""

    name: str
    threading: ModuleType
    queue: ModuleType
    socket: ModuleType
    time: ModuleType
    offload: Callable[..., Any]
    crew: Callable[[int], Crew]


class ThreadCrew:
    """Every function gets an OS thread of its own, however many were asked for."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def start(self, fn: Callable[..., object], *args: object) -> Task:
        """Run a function in a new thread."""
        thread = threading.Thread(target=fn, args=args, daemon=True)
        thread.start()
        return thread

    def stop(self, timeout: float) -> None:
        """Do nothing: threads cannot be cancelled. They are daemons, and their owner closes their sockets."""


class DhagaCrew:
    """A scheduler in each OS thread; functions are dealt out in turn, each to a dhaga."""

    def __init__(self, threads: int) -> None:
        import dhaga

        self.schedulers = [dhaga.Scheduler(name=f"backup-{number}").start() for number in range(1, threads + 1)]
        self._turn = itertools.cycle(self.schedulers)

    def start(self, fn: Callable[..., object], *args: object) -> Task:
        """Run a function in a new dhaga of the next scheduler."""
        dhaga: Task = next(self._turn).spawn(fn, *args)
        return dhaga

    def stop(self, timeout: float) -> None:
        """Cancel what still runs and end the threads."""
        for scheduler in self.schedulers:
            scheduler.stop(timeout)


def run_here(fn: Callable[..., Any], *args: object) -> Any:
    """Run a blocking call where we are: a thread has nobody to hold up."""
    return fn(*args)


def threads() -> Unit:
    """Give the unit of OS threads."""
    return Unit("threads", threading, queue, socket, time, run_here, ThreadCrew)


def dhagas() -> Unit:
    """Give the unit of dhagas."""
    import dhaga
    import dhaga.queue
    import dhaga.socket
    import dhaga.threading
    import dhaga.time

    return Unit("dhagas", dhaga.threading, dhaga.queue, dhaga.socket, dhaga.time, dhaga.offload, DhagaCrew)


UNITS: Final[dict[str, Callable[[], Unit]]] = {"threads": threads, "dhagas": dhagas}
