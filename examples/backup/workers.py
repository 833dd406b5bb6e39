"""The one room that knows threads from dhagas.

Everything else gets a `Unit` and takes `unit.threading`, `unit.queue`, `unit.socket`, `unit.time`, `unit.futures` from
it, as it would import the standard modules: the two units differ in the imports, in who starts a worker, and in whether
a long disk operation has to be handed to an OS thread.

What is handed over (`unit.offload`): fsync, SQLite, and reading a store through on start. They take milliseconds and
would hold up every dhaga of the OS thread. Reading or writing one chunk (at most 256 KB, in the page cache some ten
microseconds) stays inline: handing it over costs more than it takes.
"""

from __future__ import annotations

import concurrent.futures
import queue
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, Protocol

DEFAULT_THREADS: Final = {"threads": 32, "dhagas": 4}
DEFAULT_DHAGAS: Final = 32  # per thread


class WorkerGroup(Protocol):
    """Starts functions on a number of OS threads, at most so many at once on each; more wait for their turn."""

    def start(self, fn: Callable[..., object], *args: object) -> Future[Any]:
        """Run a function beside the caller. Returns: what `unit.futures.wait` waits for."""

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
    futures: ModuleType
    offload: Callable[..., Any]
    group: Callable[[int, int], WorkerGroup]


class ThreadGroup:
    """Every function gets an OS thread of its own, however many were asked for."""

    def __init__(self, threads: int, each: int) -> None:
        """Take no notice of the numbers: a thread a function is what there is to compare with."""

    def start(self, fn: Callable[..., object], *args: object) -> Future[Any]:
        """Run a function in a new thread."""
        future: Future[Any] = Future()
        threading.Thread(target=self._run, args=(future, fn, args), daemon=True).start()
        return future

    def stop(self, timeout: float) -> None:
        """Do nothing: threads cannot be cancelled. They are daemons, and their owner closes their sockets."""

    def _run(self, future: Future[Any], fn: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            future.set_result(fn(*args))
        except BaseException as error:
            future.set_exception(error)


class DhagaGroup:
    """A pool: each function gets a dhaga in whichever OS thread has room."""

    def __init__(self, threads: int, each: int) -> None:
        from dhaga.pool import Pool

        self._pool = Pool(threads, each, name="backup")

    def start(self, fn: Callable[..., object], *args: object) -> Future[Any]:
        """Run a function in a dhaga of the pool."""
        return self._pool.submit(fn, *args)

    def stop(self, timeout: float) -> None:
        """Cancel what still runs and end the threads."""
        self._pool.shutdown(cancel=True, timeout=timeout)


def run_here(fn: Callable[..., Any], *args: object) -> Any:
    """Run a blocking call in place: a thread holds up no other."""
    return fn(*args)


def threads() -> Unit:
    """Give the unit of OS threads."""
    return Unit("threads", threading, queue, socket, time, concurrent.futures, run_here, ThreadGroup)


def dhagas() -> Unit:
    """Give the unit of dhagas."""
    from dhaga import futures, offload, queue, socket, threading, time

    return Unit("dhagas", threading, queue, socket, time, futures, offload, DhagaGroup)


UNITS: Final[dict[str, Callable[[], Unit]]] = {"threads": threads, "dhagas": dhagas}
