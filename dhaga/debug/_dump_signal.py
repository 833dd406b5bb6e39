"""Write a dump at a signal: ``DHAGA_DUMP_SIGNAL=USR1``, to stderr or appended to the file ``DHAGA_DUMP_FILE``.

The Python signal handler only releases a lock; a helper thread waits for it and writes the dump, so that a dump also
comes while a dhaga blocks the main thread. Like any Python handler, it runs only after the main thread's current C call
has returned, unless the signal interrupts that call. Signals during the writing of a dump cause one more dump.

A signal has one handler. An installed handler stays, with a warning; a program that later installs its own replaces the
dump's: choose another signal for that program.
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType

from .._kernel import hooks, originals
from .._kernel.process.signals import handler_of, set_handler
from ._dump import dump
from ._helper_thread import HelperThread, idle

logger = logging.getLogger("dhaga")


class DumpHandler:
    """A signal handler that requests a dump from its helper thread."""

    of_dhaga = True  # the deadlock detector may ignore it: it wakes no dhaga

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.start()

    def start(self) -> None:
        """Start the helper thread; again in a forked child, because threads are not inherited."""
        self.requested = originals.allocate_lock()
        self.requested.acquire()
        self.thread = HelperThread("dumper", self.run)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.requested.release()
        except RuntimeError:  # an earlier request is still pending: one dump serves both
            pass

    def run(self) -> None:
        """Write a dump at each request; the helper thread's function, which never returns."""
        while True:
            with idle():
                self.requested.acquire()
            try:
                write(self.path, f"{dump()}\n\n".encode(errors="backslashreplace"))
            except Exception:
                logger.exception("the dump could not be written")


def write(path: str | None, text: bytes) -> None:
    """Append to a file, or write to stderr. Raises: OSError."""
    if path is None:
        write_all(2, text)
        return
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(file, text)
    finally:
        originals.close(file)


def write_all(file: int, text: bytes) -> None:
    while text:
        text = text[originals.write(file, text) :]


dump_handlers: dict[int, DumpHandler] = {}
"""The handlers by signal number."""


def dump_at(name: str, path: str | None = None) -> bool:
    """Write a dump at each signal of this name (``USR1`` or ``SIGUSR1``) to stderr, or append it to the file ``path``.

    Parks: never. From: the main thread. Returns: False, with a warning, if the signal cannot be handled.
    Raises: OSError if the file cannot be written.
    """
    number = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    if not isinstance(number, signal.Signals) or number in (signal.SIGKILL, signal.SIGSTOP):
        logger.warning("no dump at a signal: there is no signal %r that can be handled; try USR1", name)
    elif handler_of(number) not in (signal.SIG_DFL, signal.SIG_IGN):
        logger.warning("no dump at %s: the program has a handler for it; choose another signal", number.name)
    elif originals.get_ident() != originals.main_thread().ident:
        logger.warning("no dump at %s: handlers can be set only in the main thread; import dhaga there", number.name)
    else:
        write(path, b"")  # fails now, not at the signal, if the path cannot be written
        handler = dump_handlers[number] = DumpHandler(path)
        set_handler(number, handler)
        return True
    return False


def after_fork_in_child() -> None:
    """Start the child's own helper threads."""
    for handler in dump_handlers.values():
        handler.start()


hooks.in_forked_child.append(after_fork_in_child)
