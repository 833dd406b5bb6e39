"""The cause of a block, and its cure: a computation, a wait in a standard module, or another wait in C.

A wait in a Python frame of a standard module (``Event.wait``, ``Thread.join``) shows in the stack. A standard lock
waits in C, under the line of the program: there the CPU time of the OS thread hardly grows, the line calls ``acquire``
or is a ``with``, and Linux says that the thread waits for a futex.

Rejected: to look at the type of the object in the frame. ``sys._current_frames`` crashes Python 3.11 (``stacks.py``).
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
"""Standard modules whose waits block an OS thread where they are not patched."""

STILL_SHARE = 0.05
"""An OS thread that computed for a smaller share of a block counts as waiting.

A thread that polls with ``sleep(0.01)`` computes for 1 to 2 %. If ten threads compute beside each other, each computes
for 10 %.
"""

COMPUTING_SHARE = 0.5
"""An OS thread that computed, or waited for a processor, for a larger share of a block counts as computing."""

LOCK_CALL = re.compile(r"\bwith\s+(?!.*\w\()|\.(acquire|__enter__)\(")
QUEUE_CALL = re.compile(r"\.(get|put)\(")
OTHER_CALLS = {
    "time.sleep": re.compile(r"\bsleep\("),
    "socket": re.compile(r"\.(recv|recv_into|recvfrom|recvmsg|send|sendall|sendto|accept|connect)\("),
    "select": re.compile(r"\.(select|poll)\("),
}
"""The calls, by standard module, that wait in C under the line of the program. Dhaga has a module of each name."""

ELSEWHERE = "or run the program with python -m dhaga"


class ThreadUse:
    """The CPU time of a scheduler's OS thread since a moment, and its waits for a processor where Linux counts them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.native_id: int | None = None
        self._cpu = cpu_seconds(scheduler, None)
        self._delay: float | None = None

    def begin_delay(self) -> None:
        """From now on count the waits for a processor. That reads two files of /proc, and so begins only once a thread
        is blocked.
        """
        if self._delay is None:
            self.native_id = native_id_of(self.scheduler)
            self._delay = run_delay(self.native_id)

    def share(self, seconds: float) -> float | None:
        """Return the share of the time in which the thread computed, or waited for a processor; None: unknown."""
        now = cpu_seconds(self.scheduler, None)
        if now is None or self._cpu is None:
            return None
        return (now - self._cpu + self.delay()) / seconds

    def delay(self) -> float:
        """Return the seconds for which the thread has waited for a processor since ``begin_delay``."""
        return 0.0 if self._delay is None else run_delay(self.native_id) - self._delay


def native_id_of(scheduler: Scheduler) -> int | None:
    """Return the system's number of a scheduler's OS thread; None for a thread that ``threading`` does not know."""
    ident = scheduler.thread_ident
    return next((each.native_id for each in originals.enumerate_threads() if each.ident == ident), None)


def run_delay(native_id: int | None) -> float:
    """Return the seconds for which an OS thread has waited for a processor; 0 where the platform does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return int(_of_task(native_id, "schedstat").split()[1]) / 1e9
    return 0.0


def waits_for_futex(native_id: int | None) -> bool | None:
    """Return whether an OS thread waits for a lock of the C library; None where the platform does not tell."""
    with suppress(OSError):
        channel = _of_task(native_id, "wchan")
        return None if channel in ("", "0") else channel.startswith("futex")
    return None


def _of_task(native_id: int | None, name: str) -> str:
    fd = os.open(f"/proc/self/task/{native_id}/{name}", os.O_RDONLY)
    try:
        return os.pread(fd, 200, 0).decode()  # which no patch replaces
    finally:
        originals.close(fd)


def advice_for(stack: Stack, share: float | None = None, futex: bool | None = None) -> str:
    """Return advice about a block: what the OS thread does, and the cure.

    ``share``: of the time in which it computed; ``futex``: whether it waits for a lock of the C library; None: unknown.
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
    """Return advice about a wait in C under a line of the program."""
    found = _standard_thing(line, futex)
    if found is not None:
        thing, face = found
        return f"it waits {thing}, which blocks the OS thread: from dhaga import {face}, {ELSEWHERE}"
    if futex:
        return (
            "it waits in C for a lock, which blocks the OS thread: if that is a standard one, from dhaga import "
            f"threading, {ELSEWHERE}; otherwise pass the call to dhaga.offload()"
        )
    return "it waits in C, which blocks the OS thread: pass the call to dhaga.offload()"


def _standard_thing(line: str, futex: bool | None) -> tuple[str, str] | None:
    """Return the name in the standard library that a line waits for, and the module of Dhaga that has it; None if
    unknown.
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
    """Return the outermost module of ``FACES`` that the innermost frames stay in; None without one."""
    inside = None
    for frame in reversed(stack):
        module = standard_module(frame.file)
        if module is None:
            break
        inside = module
    return inside


def standard_module(file: str) -> str | None:
    """Return the one of ``FACES`` that a source file belongs to."""
    return next((name for name in FACES if file in files_of(name)), None)


def files_of(name: str) -> frozenset[str]:
    """Return the source files of an imported standard module."""
    modules = [module for each, module in list(sys.modules.items()) if each == name or each.startswith(f"{name}.")]
    return frozenset(filter(None, (getattr(module, "__file__", None) for module in modules)))
