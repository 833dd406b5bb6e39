"""The program's wakeup fd while signals are sent again: it gets one byte for each signal, as without Dhaga.

C writes the number of each signal that arrives to the fd of ``signal.set_wakeup_fd``, also of one that ``signals.py``
has held off and sends again. An event loop that dispatches by these bytes would handle that signal twice. So until its
handler is called, a pipe of ours takes the place of the program's fd; then the numbers of other signals are passed on.
A signal may strike between any two lines: it finds lists that were appended to or cleared, which is atomic.

Rejected: a call of the handler without a second signal. ``_thread.interrupt_main`` also writes the byte, and a pending
call of C's would not end a system call that the main thread has begun meanwhile.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from types import FrameType
from typing import Any

from .. import originals
from ..own_fds import own_fds
from ..platform.system import system
from ..run.loop import SignalPipe, set_wakeup_fd

# Seconds until a signal is sent once more if its handler has not been called: it came just before a system call began,
# which a byte in the program's fd would have ended.
REPEAT_SECONDS = 0.01

# Our pipe, once a signal has been held off; at most one.
pipes: list[SignalPipe] = []

# Held while a signal is sent again, so that ``settle`` knows of each whether it was sent.
sending: Any = originals.allocate_lock()

# The program's fd whose place our pipe has taken; at most one.
diverted: list[int] = []


class Resend:
    """A signal that was held off, and is sent again by a thread of its own until its handler is called."""

    __slots__ = ("arrived", "handler", "number", "times")

    def __init__(self, number: int) -> None:
        self.number = number
        # The handler that was set when the signal came.
        self.handler: Any = signal.getsignal(number)
        self.times = 0
        self.arrived = False

    def send(self, pause: float) -> None:
        """Send it after a pause to leave the package in. From: a thread of its own."""
        originals.thread_sleep(pause)
        while self.send_once() and diverted:
            originals.thread_sleep(REPEAT_SECONDS)
        self.arrived = True

    def send_once(self) -> bool:
        """Send it, unless it has arrived. Returns: whether it was sent."""
        with sending:
            # Its handler may have been removed meanwhile, by C.
            if self.arrived or not callable(signal.getsignal(self.number)):
                return False
            # First, because it may arrive before this thread runs on.
            self.times += 1
            # A real signal, because it also ends a system call.
            system.send_signal(originals.main_thread().ident or 0, self.number)
        return True


resends: list[Resend] = []


def divert(number: int) -> Resend:
    """Replace the program's wakeup fd with our pipe until a signal has been sent again. From: a handler of a signal."""
    resend = Resend(number)
    resends.append(resend)
    if not pipes:
        pipes.append(SignalPipe())
    ours = pipes[0].write_end.fileno()
    former = set_wakeup_fd(ours, warn_on_full_buffer=False)
    if former == -1 or (former in own_fds and former != ours):
        set_wakeup_fd(former, warn_on_full_buffer=False)
    elif former != ours:
        diverted.append(former)
    return resend


def note_arrival(number: int) -> None:
    """Give the program's wakeup fd back unless other signals are to be sent again. From: a handler of the signal."""
    for resend in resends[:]:
        if resend.number == number and resend.times:
            resend.arrived = True
    if all(resend.arrived for resend in resends):
        give_back()


def settle(number: int, frame: FrameType | None) -> None:
    """Call the handler of a signal that is yet to be sent again, before the program sets another one.

    The standard ``signal.signal`` does so with a signal that has come. From: the main thread. Raises: as the handler.
    """
    with sending:
        unsent = [resend for resend in resends if resend.number == number and not (resend.arrived or resend.times)]
        for resend in unsent:
            resend.arrived = True
    note_arrival(number)
    if unsent:
        unsent[0].handler(number, frame)


def give_back() -> None:
    """Put the program's wakeup fd back, and write the numbers of other signals to it. From: the main thread."""
    gone = resends[:]
    while diverted:
        fd, pipe = diverted.pop(), pipes[0]
        with suppress(OSError, ValueError):  # the program has closed it
            current = set_wakeup_fd(fd, warn_on_full_buffer=False)
            # The program has set another one meanwhile.
            if current != pipe.write_end.fileno():
                set_wakeup_fd(current, warn_on_full_buffer=False)
        numbers = list(pipe.drain())
        for resend in gone:
            for _ in range(min(resend.times, numbers.count(resend.number))):
                numbers.remove(resend.number)
        with suppress(OSError):  # full: C's own write would also be lost
            if numbers:
                system.write_wakeup(fd, bytes(numbers))
    del resends[: len(gone)]


def leave_in_parent() -> None:
    """Give the program's fd back in a forked child, which shares our pipe with its parent and is sent nothing again."""
    global sending
    sending = originals.allocate_lock()  # a thread of the parent may have held it
    while diverted:
        with suppress(OSError, ValueError):
            set_wakeup_fd(diverted.pop(), warn_on_full_buffer=False)
    pipes.clear()
    resends.clear()
