"""Signals: a dump at a signal, ``DHAGA_DUMP_SIGNAL=USR1``, to stderr or to the end of the file ``DHAGA_DUMP_FILE``.

The handler only wakes a helper thread, which looks and writes: so the dump comes while a dhaga holds the main thread,
too. As each handler of Python's it waits for the end of the C call that the main thread is in, if no signal ends that.

There is one handler a signal. One that is there already stays, and a warning says so; a program that sets its own later
takes the signal away from the dump: choose another one for it then.
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType

from dhaga.kernel import originals
from dhaga.kernel.interrupts import handler_of, set_handler

from .dump import dump
from .helpers import Helper, resting

logger = logging.getLogger("dhaga")


class Dumper:
    """A signal's handler that has a dump written."""

    of_dhaga = True  # it wakes nobody: see kernel/deadlock.py

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.start()

    def start(self) -> None:
        """Wait for the signal; again in a forked child."""
        self.asked = originals.allocate_lock()
        self.asked.acquire()
        self.thread = Helper("dumper", self.run)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self.asked.release()
        except RuntimeError:  # one that has come before is not served yet: this one is served with it
            pass

    def run(self) -> None:
        while True:
            with resting():
                self.asked.acquire()
            try:
                write(self.path, f"{dump()}\n\n".encode(errors="backslashreplace"))
            except Exception:
                logger.exception("no dump could be written")


def write(path: str | None, text: bytes) -> None:
    """Append to a file, or to stderr. Raises: OSError."""
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


dumpers: dict[int, Dumper] = {}
"""By the numbers of their signals."""


def dump_at(name: str, path: str | None = None) -> bool:
    """Write a dump whenever a signal comes, ``USR1`` or ``SIGUSR1``; False, and a warning, where that cannot be.

    Parks: never. From: the main thread. ``path``: of a file to append to; by default it goes to stderr. Raises: OSError
    if that file cannot be written.
    """
    number = getattr(signal, f"SIG{name.upper().removeprefix('SIG')}", None)
    if not isinstance(number, signal.Signals) or number in (signal.SIGKILL, signal.SIGSTOP):
        logger.warning("no dump at a signal: there is none by the name of %r that could be handled; try USR1", name)
    elif handler_of(number) not in (signal.SIG_DFL, signal.SIG_IGN):
        logger.warning("no dump at %s: the program has a handler for it; choose another signal", number.name)
    elif originals.get_ident() != originals.main_thread().ident:
        logger.warning("no dump at %s: handlers can be set in the main thread alone; import dhaga there", number.name)
    else:
        write(path, b"")  # what is wrong with the path is said now
        dumper = dumpers[number] = Dumper(path)
        set_handler(number, dumper)
        return True
    return False


def after_fork_in_child() -> None:
    """Have the child write its own."""
    for dumper in dumpers.values():
        dumper.start()


os.register_at_fork(after_in_child=after_fork_in_child)
