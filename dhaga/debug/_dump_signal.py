"""Writes a dump at each signal. ``DHAGA_DUMP_SIGNAL=USR1`` selects the signal. Dumps are appended to the file that
``DHAGA_DUMP_FILE`` names. Without this variable, the dump is written to stderr. The Python signal handler only releases
a lock. A helper thread waits for this lock and writes the dump, so that a dump is written even while a dhaga blocks the
main thread. Like any Python handler, the handler runs only after the main thread's current C call has returned, unless
the signal interrupts that call. Any number of signals that arrive while a dump is written cause one more dump.

A signal has only one handler. If the program has already installed a handler, that handler stays and a warning is
logged. A handler that the program installs later replaces the dump's handler; choose another signal for such a program.
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
    """A signal handler that requests a dump from its own helper thread."""

    of_dhaga = True  # this handler does not wake dhagas, so the deadlock detector may ignore the handler

    def __init__(self, path: str | None) -> None:
        # Absolute, because the program may change its working directory before a signal.
        self.path = None if path is None else os.path.abspath(path)
        self.start()

    def start(self) -> None:
        """Start the helper thread. A forked child calls this method again, because threads are not inherited."""
        self.requested = originals.allocate_lock()
        self.requested.acquire()
        self.thread = HelperThread("dumper", self.run)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.requested.release()
        except RuntimeError:  # an earlier request is still pending, and one dump serves both requests
            pass

    def run(self) -> None:
        """Write a dump at each request, and never return. From: the helper thread."""
        while True:
            with idle():
                self.requested.acquire()
            try:
                write(self.path, f"{dump()}\n\n".encode(errors="backslashreplace"))
            except Exception:
                logger.exception("the dump could not be written")


def write(path: str | None, text: bytes) -> None:
    """Append text to a file, or write it to stderr. Raises: OSError."""
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
"""The installed handlers, by signal number."""


def dump_at(name: str, path: str | None = None) -> bool:
    """Write a dump to stderr or to the end of the file ``path`` at each signal ``name`` (``USR1`` or ``SIGUSR1``).

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
        write(path, b"")  # an unwritable path raises an error now, not at the signal
        handler = dump_handlers[number] = DumpHandler(path)
        set_handler(number, handler)
        return True
    return False


def after_fork_in_child() -> None:
    """Start the helper threads of the child."""
    for handler in dump_handlers.values():
        handler.start()


hooks.in_forked_child.append(after_fork_in_child)
