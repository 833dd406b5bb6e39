"""The helper threads: OS threads that Dhaga adds to a program. The program's signals never reach them.

The operating system delivers a process's signal to any thread that does not block the signal. A program may block a
signal in its own threads and receive it with ``sigwait``. If a helper thread did not block this signal, the helper
thread might get the signal, and the signal would end the process. So each helper thread starts with all signals
blocked, except ``FAULTS``. During a call that it makes for the program, a helper thread uses the caller's mask, because
a process that the call starts inherits the thread's mask.
Not here: threads that the program starts, for example with ``Scheduler.start()``. These threads inherit their starter's
mask, like any other thread.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

from . import originals
from .context_manager import contextmanager
from .platform.system import system

FAULTS = {
    number
    for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
    if (number := getattr(signal, name, None)) is not None
}
"""Signals that a thread's own faults cause. If these signals were blocked, a fault would end the process without a
report of ``faulthandler``.
"""

GONE_SECONDS = 0.1
"""The longest time that a fork waits for the end of a helper thread. On an idle machine the thread ends within 0.1
ms.
"""

BLOCKED: frozenset[int] = frozenset(map(int, signal.valid_signals() - FAULTS)) - system.NEVER_BLOCKED
"""The mask of a helper thread: all signals that can be blocked, except ``FAULTS``."""


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals of ``BLOCKED`` in the calling thread during the ``with`` block. Threads started in the block
    inherit the mask.

    Raises: at the end of the block, errors of handlers of signals that arrived during the block.
    """
    # The mask is read first. If a signal handler raises in ``block_signals``, the signals are blocked, but that call
    # returns no former mask.
    former = system.signal_mask()
    try:
        system.block_signals(BLOCKED)
        yield
    finally:
        system.set_signal_mask(former)


class HelperThread(originals.Thread):
    """A daemon OS thread with the signal mask ``BLOCKED``. ``threading`` lists the thread."""

    def __init__(self, name: str, target: Callable[..., object] | None = None, args: tuple[Any, ...] = ()) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Raises: RuntimeError if the thread cannot be started, for example at interpreter exit."""
        with signals_blocked():
            super().start()


def start_unlisted(name: str, fn: Callable[..., object], *args: Any) -> None:
    """Start a helper thread that ``threading`` does not list among the program's threads."""
    with signals_blocked():
        originals.start_new_thread(run_unlisted, (name, fn, args))


def run_unlisted(name: str, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Run an unlisted thread: set its name, then call ``fn``."""
    if originals.set_thread_name is not None:
        originals.set_thread_name(name)
    fn(*args)


def wait_until_gone(native_id: int | None) -> None:
    """Wait until Linux has removed an OS thread that has ended. No-op on other systems, which do not report this.

    From CPython 3.12 on, a fork warns if the system knows of another thread, even if that thread has ended.
    """
    deadline = originals.monotonic() + GONE_SECONDS
    while os.path.exists(f"/proc/self/task/{native_id}") and originals.monotonic() < deadline:
        originals.thread_sleep(0.0001)
