"""The OS threads that Dhaga adds to a program. The program's signals never reach them.

The kernel hands a signal of the process to any thread that does not block it. A program may block a signal in its own
threads and take it by ``sigwait``. If a helper thread did not block that signal, the signal would end the process. So
each helper thread starts with all signals blocked. While it makes a call for the program, it has the caller's mask: a
process that the call starts inherits that mask.
Not here: threads that the program asks for, such as ``Scheduler.start()``, which inherit the mask as any thread does.
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
"""Signals of a thread's own faults: if they are blocked, the process ends without the report of ``faulthandler``."""

GONE_SECONDS = 0.1
"""The longest wait at a fork for the end of a helper thread, which takes 0.1 ms on an idle machine."""

BLOCKED: frozenset[int] = frozenset(map(int, signal.valid_signals() - FAULTS)) - system.NEVER_BLOCKED
"""The mask of a helper thread."""


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals in the calling thread, and in threads that it starts in the block.

    Raises: errors of handlers of signals that came meanwhile, at the end of the block.
    """
    # Read first: if a handler raises in the next call, that call has blocked the signals without returning the former
    # mask.
    former = system.signal_mask()
    try:
        system.block_signals(BLOCKED)
        yield
    finally:
        system.set_signal_mask(former)


class HelperThread(originals.Thread):
    """A daemon OS thread that ``threading`` lists, with all signals blocked."""

    def __init__(self, name: str, target: Callable[..., object] | None = None, args: tuple[Any, ...] = ()) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread. Raises: RuntimeError if it cannot be started, as at interpreter exit."""
        with signals_blocked():
            super().start()


def start_unlisted(name: str, fn: Callable[..., object], *args: Any) -> None:
    """Start a helper thread that ``threading`` does not know, because it lists the program's threads."""
    with signals_blocked():
        originals.start_new_thread(run_unlisted, (name, fn, args))


def run_unlisted(name: str, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Body of an unlisted thread."""
    if originals.set_thread_name is not None:
        originals.set_thread_name(name)
    fn(*args)


def wait_until_gone(native_id: int | None) -> None:
    """Wait until the system has removed an OS thread that has ended, where it tells: on Linux, within a moment.

    From CPython 3.12 on a fork warns if the system knows of another thread, even of one that has returned.
    """
    deadline = originals.monotonic() + GONE_SECONDS
    while os.path.exists(f"/proc/self/task/{native_id}") and originals.monotonic() < deadline:
        originals.thread_sleep(0.0001)
