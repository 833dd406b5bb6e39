"""Replaces the program's wakeup fd while signals are sent again, so that the fd gets one byte for each signal.

CPython writes the number of each arriving signal, as one byte, to the fd of ``signal.set_wakeup_fd``. A signal that
``signals.py`` defers and sends again arrives twice, and an event loop that reads these bytes would handle the signal
twice. So one of Dhaga's pipes replaces the program's fd until the signal has arrived again. Then the numbers of the
other signals that have arrived are written to the program's fd. A signal handler may run between any two lines, so each
change of a list is one atomic step.

Rejected: calling the handler without a second signal. ``_thread.interrupt_main`` also writes the byte, and a pending
call in C (``Py_AddPendingCall``) would not end a system call that the main thread has begun meanwhile.
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

# Seconds until a signal is sent once more if its handler has not been called. In that case the signal came just before
# a system call. A byte in the program's fd would have ended the call, but Dhaga's pipe has received the byte.
REPEAT_SECONDS = 0.01

# Dhaga's pipe, made when the first signal is deferred. The list has at most one item.
pipes: list[SignalPipe] = []

# The lock held while a signal is sent again. With this lock ``settle`` finds out whether a signal was sent.
sending: Any = originals.allocate_lock()

# The program's fd while Dhaga's pipe replaces it. The list has at most one item.
diverted: list[int] = []


class Resend:
    """A deferred signal, which a helper thread sends again. While Dhaga's pipe replaces the program's fd, the thread
    repeats the signal until it arrives.
    """

    __slots__ = ("arrived", "handler", "number", "times")

    def __init__(self, number: int) -> None:
        self.number = number
        # The handler that was set when the signal arrived.
        self.handler: Any = signal.getsignal(number)
        self.times = 0
        self.arrived = False

    def send(self, pause: float) -> None:
        """Send the signal after a pause, in which the main thread may leave this package. From: a helper thread."""
        originals.thread_sleep(pause)
        while self.send_once() and diverted:
            originals.thread_sleep(REPEAT_SECONDS)
        self.arrived = True

    def send_once(self) -> bool:
        """Send the signal, unless it has arrived. Returns: whether the signal was sent."""
        with sending:
            # C code may have removed the handler meanwhile.
            if self.arrived or not callable(signal.getsignal(self.number)):
                return False
            # The signal is counted before it is sent, because the signal may arrive before this thread continues.
            self.times += 1
            # A real signal is sent, because only a real signal ends a system call.
            system.send_signal(originals.main_thread().ident or 0, self.number)
        return True


resends: list[Resend] = []


def divert(number: int) -> Resend:
    """Replace the program's wakeup fd with Dhaga's pipe until a deferred signal is handled. From: a signal handler."""
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
    """Mark a signal as arrived; if all deferred signals have arrived, restore the program's wakeup fd. From: a handler
    of the signal.
    """
    for resend in resends[:]:
        if resend.number == number and resend.times:
            resend.arrived = True
    if all(resend.arrived for resend in resends):
        give_back()


def settle(number: int, frame: FrameType | None) -> None:
    """Call the handler of a deferred signal that has not been sent again, before the program sets another handler.

    Source: ``signal.signal``, which calls the handler of a signal that has arrived. From: the main thread.
    Raises: the handler's error.
    """
    with sending:
        unsent = [resend for resend in resends if resend.number == number and not (resend.arrived or resend.times)]
        for resend in unsent:
            resend.arrived = True
    note_arrival(number)
    if unsent:
        unsent[0].handler(number, frame)


def give_back() -> None:
    """Restore the program's wakeup fd, and write the numbers of other signals to it. From: the main thread."""
    gone = resends[:]
    while diverted:
        fd, pipe = diverted.pop(), pipes[0]
        with suppress(OSError, ValueError):  # the program has closed its fd
            current = set_wakeup_fd(fd, warn_on_full_buffer=False)
            # The program has set another fd meanwhile.
            if current != pipe.write_end.fileno():
                set_wakeup_fd(current, warn_on_full_buffer=False)
        numbers = list(pipe.drain())
        for resend in gone:
            for _ in range(min(resend.times, numbers.count(resend.number))):
                numbers.remove(resend.number)
        with suppress(OSError):  # the program's fd is full: a write by CPython would also be lost
            if numbers:
                system.write_wakeup(fd, bytes(numbers))
    del resends[: len(gone)]


def leave_in_parent() -> None:
    """Restore the program's fd in a forked child, which shares Dhaga's pipe with its parent.

    The child discards the deferred signals: only the parent sends them again.
    """
    global sending
    sending = originals.allocate_lock()  # a thread of the parent may have held it
    while diverted:
        with suppress(OSError, ValueError):
            set_wakeup_fd(diverted.pop(), warn_on_full_buffer=False)
    pipes.clear()
    resends.clear()
