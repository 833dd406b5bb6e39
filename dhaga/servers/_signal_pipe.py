"""The self-pipe of the prefork master: each signal writes its number to it, and the master's loop reads the numbers.

Not ``_kernel.run.loop.WakeupPipe``, which only wakes a loop and drops the bytes, respects an earlier wakeup fd, and
restores no handlers. The master needs the numbers, and must restore fd and handlers in itself and in each child.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator

from .._kernel import originals
from .._kernel.context_manager import contextmanager


class SignalPipe:
    """A self-pipe (``signal.set_wakeup_fd``) that yields the numbers of the given signals, a byte each."""

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
        """Restore the previous handlers and wakeup fd, and close both ends."""
        for number, handler in self.former.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.former_fd)
        self.read_end.close()
        self.write_end.close()

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Block the signals during a fork: until it calls ``close``, the child would write to this shared pipe."""
        former = signal.pthread_sigmask(signal.SIG_BLOCK, self.numbers)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, former)


def ignore(number: int, frame: object) -> None:
    """Signal handler that does nothing: the number is read from the self-pipe."""
