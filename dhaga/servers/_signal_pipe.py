"""The self-pipe of the prefork master. For each signal, the interpreter writes the signal's number to the pipe. The
master's loop reads the numbers.

``_kernel.run.loop.WakeupPipe`` cannot be used here. It only wakes a loop, drops the numbers of signals, and restores no
handlers. The master needs these numbers. The master and each child must also restore the wakeup fd and the handlers.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator

from .._kernel import originals
from .._kernel.context_manager import contextmanager


class SignalPipe:
    """A pipe that receives one byte per signal, the signal's number, through ``signal.set_wakeup_fd``."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = set(numbers)
        self.read_end, self.write_end = originals.socketpair()
        for end in (self.read_end, self.write_end):
            end.setblocking(False)
        self.former_fd = signal.set_wakeup_fd(self.write_end.fileno(), warn_on_full_buffer=False)
        self.former = {number: signal.signal(number, ignore) for number in self.numbers}

    def read(self) -> bytes:
        try:
            return self.read_end.recv(4096)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Restore the previous handlers and wakeup fd, and close both ends of the pipe."""
        for number, handler in self.former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.former_fd)
        self.read_end.close()
        self.write_end.close()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Block the signals during a fork: until the child calls ``close``, its signals also arrive in this pipe."""
        former = signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


def ignore(number: int, frame: object) -> None:
    """Do nothing. This handler is registered because the self-pipe gets only signals that have a handler."""
