"""Finds why a dhaga blocks its OS thread (it computes, or it waits in a standard module or in C), and finds the cure.

A wait in a Python frame of a standard module (``Event.wait``, ``Thread.join``) is visible in the stack. A wait for a
standard lock happens in C, so the stack ends at the program's line that waits. Three signs reveal such a wait: the OS
thread's CPU time hardly grows, the line calls ``acquire`` or begins a ``with`` block, and Linux reports that the thread
waits for a futex.

Rejected: looking up the lock's type in the frame, because ``sys._current_frames`` crashes Python 3.11 (``stacks.py``).
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress

from .._kernel import originals
from .._kernel.process.preemption_watcher import cpu_seconds
from .._kernel.run.scheduler import Scheduler
from .._kernel.stacks import Stack

FACES = ("queue", "threading", "concurrent.futures", "subprocess", "socket", "ssl", "select", "selectors")
"""Standard modules whose waits block an OS thread unless the module is patched."""

STILL_SHARE = 0.05
"""If an OS thread used a processor, or waited for one, for less than this share of a block, the thread counts as
waiting in C.

The limit lies between two cases. A thread that polls with ``sleep(0.01)`` computes for 1 to 2 % of the time. Each of
ten threads that compute concurrently computes for 10 % of the time.
"""

COMPUTING_SHARE = 0.5
"""If an OS thread used a processor, or waited for one, for at least this share of a block, the cause is a computation.
"""

LOCK_CALL = re.compile(r"\bwith\s+(?!.*\w\()|\.(acquire|__enter__)\(")
QUEUE_CALL = re.compile(r"\.(get|put)\(")
OTHER_CALLS = {
    "time.sleep": re.compile(r"\bsleep\("),
    "socket": re.compile(r"\.(recv|recv_into|recvfrom|recvmsg|send|sendall|sendto|accept|connect)\("),
    "select": re.compile(r"\.(select|poll)\("),
}
"""Patterns of calls that wait in C. The first part of each key names a standard module and a module of Dhaga."""

ELSEWHERE = "or run the program with python -m dhaga"


class ThreadUse:
    """The CPU time of a scheduler's OS thread since this object was created.

    On Linux, the thread's waits for a processor are added.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.native_id: int | None = None
        self._cpu = cpu_seconds(scheduler, None)
        self._delay: float | None = None

    def begin_delay(self) -> None:
        """Start to measure the waits for a processor; no-op on a second call. The first call reads a file of /proc, so
        the watchdog makes the call only when a thread seems blocked.
        """
        if self._delay is None:
            self.native_id = native_id_of(self.scheduler)
            self._delay = run_delay(self.native_id)

    def share(self, seconds: float) -> float | None:
        """Return the share of ``seconds`` in which the thread computed or waited for a processor; None if unknown."""
        now = cpu_seconds(self.scheduler, None)
        if now is None or self._cpu is None:
            return None
        return (now - self._cpu + self.delay()) / seconds

    def delay(self) -> float:
        """Return the number of seconds for which the thread has waited for a processor since ``begin_delay``."""
        return 0.0 if self._delay is None else run_delay(self.native_id) - self._delay


def native_id_of(scheduler: Scheduler) -> int | None:
    """Return the operating system's ID of a scheduler's OS thread; None for a thread unknown to ``threading``."""
    ident = scheduler.thread_ident
    return next((each.native_id for each in originals.enumerate_threads() if each.ident == ident), None)


def run_delay(native_id: int | None) -> float:
    """Return the seconds for which an OS thread has waited for a processor; 0 if the platform does not report them."""
    with suppress(OSError, ValueError, IndexError):
        return int(_of_task(native_id, "schedstat").split()[1]) / 1e9
    return 0.0


def waits_for_futex(native_id: int | None) -> bool | None:
    """Return whether an OS thread waits for a lock of the C library; None if the platform does not report waits."""
    with suppress(OSError):
        channel = _of_task(native_id, "wchan")
        return None if channel in ("", "0") else channel.startswith("futex")
    return None


def _of_task(native_id: int | None, name: str) -> str:
    fd = os.open(f"/proc/self/task/{native_id}/{name}", os.O_RDONLY)
    try:
        return os.pread(fd, 200, 0).decode()  # os.pread is never patched
    finally:
        originals.close(fd)


def advice_for(stack: Stack, share: float | None = None, futex: bool | None = None) -> str:
    """Return advice about a block: what the OS thread does, and the cure.

    ``share``: share of the time in which the thread computed or waited for a processor. ``futex``: whether the thread
    waits for a lock of the C library. None means that the value is unknown.
    """
    inside = _innermost_module(stack)
    if inside is not None:
        name = "futures" if inside.startswith("concurrent") else inside
        return f"it waits in the standard {inside}, which blocks the OS thread: from dhaga import {name}, {ELSEWHERE}"
    if share is not None and share >= COMPUTING_SHARE:
        return "it computes: call dhaga.sleep(0) now and then, or pass the call to dhaga.offload()"
    if share is None or share >= STILL_SHARE:
        return "pass blocking calls to dhaga.offload(), or call dhaga.sleep(0) in long computations"
    return _advice_for_wait(stack[-1].source if stack else "", futex)


def _advice_for_wait(line: str, futex: bool | None) -> str:
    """Return advice about a wait in C that a line of the program has begun."""
    found = _standard_thing(line, futex)
    if found is not None:
        thing, face = found
        return f"it waits {thing}, which blocks the OS thread: from dhaga import {face}, {ELSEWHERE}"
    if futex:
        return (
            "it waits in C for a lock, which blocks the OS thread: if it is a standard lock, from dhaga import "
            f"threading, {ELSEWHERE}; otherwise pass the call to dhaga.offload()"
        )
    return "it waits in C, which blocks the OS thread: pass the call to dhaga.offload()"


def _standard_thing(line: str, futex: bool | None) -> tuple[str, str] | None:
    """Return the words that follow "it waits" for a line of code, and the module of Dhaga to import instead.

    The words name a standard lock, queue or module. Returns: None if the line is not recognized.
    """
    if futex is not False and LOCK_CALL.search(line):
        return "for a standard lock", "threading"
    if futex and QUEUE_CALL.search(line):
        return "for a standard queue", "queue"
    return next(
        (
            (f"in the standard {name}", name.partition(".")[0])
            for name, call in OTHER_CALLS.items()
            if call.search(line)
        ),
        None,
    )


def _innermost_module(stack: Stack) -> str | None:
    """Return the module of ``FACES`` that the program's innermost frame has called; None without such a call."""
    inside = None
    for frame in reversed(stack):
        module = standard_module(frame.file)
        if module is None:
            break
        inside = module
    return inside


def standard_module(file: str) -> str | None:
    """Return the module of ``FACES`` to which a source file belongs, or None."""
    return next((name for name in FACES if file in files_of(name)), None)


def files_of(name: str) -> frozenset[str]:
    """Return the source files of an imported standard module."""
    modules = [module for each, module in list(sys.modules.items()) if each == name or each.startswith(f"{name}.")]
    return frozenset(filter(None, (getattr(module, "__file__", None) for module in modules)))
