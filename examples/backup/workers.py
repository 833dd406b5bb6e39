"""The only module that distinguishes threads from dhagas.

All other modules get a `Unit`, and use `unit.threading`, `unit.queue`, `unit.socket`, `unit.time` and `unit.futures`
instead of the standard modules. The two units differ in these modules, in how workers are started, and in whether a
long disk operation must be offloaded to an OS thread.

Offloaded (`unit.offload`) are fsync, SQLite, and the check of a store on start. They take milliseconds and would block
every dhaga of the OS thread. Reading or writing one chunk (at most 256 KB, in the page cache about ten microseconds)
stays inline, because offloading it would cost more.
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
    """Starts every function in a new OS thread, whatever number of threads was requested."""

    def __init__(self, threads: int, each: int) -> None:
        """Ignore the numbers, because one thread per function is what dhagas are compared with."""

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
    """Make a blocking call in the calling thread, because it does not block other threads."""
    return fn(*args)


def threads() -> Unit:
    """Give the unit of OS threads."""
    return Unit("threads", threading, queue, socket, time, concurrent.futures, run_here, ThreadGroup)


def dhagas() -> Unit:
    """Give the unit of dhagas."""
    from dhaga import futures, offload, queue, socket, threading, time

    return Unit("dhagas", threading, queue, socket, time, futures, offload, DhagaGroup)


UNITS: Final[dict[str, Callable[[], Unit]]] = {"threads": threads, "dhagas": dhagas}
