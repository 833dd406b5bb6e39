"""How soon the threads of calls get the interpreter lock, beside dhagas that compute."""

from __future__ import annotations

import sys

from .kernel import originals
from .kernel.priorities import HIGH
from .kernel.waiter import Waiter

SOON = 0.000_1
"""Seconds that a thread waits for the interpreter lock before it asks for it, while a call is under way.

Python's own 5 ms begin anew whenever the lock is let go of and taken again, and a scheduler whose dhagas compute does
so every 0.25 ms, to look for events: a call beside them then waits until it wins a race, up to 1.2 s. (With 0.2 ms
still 0.1 s, where the system adds 50 µs to each wait.)
"""

AT_ONCE = 0.000_02
"""The same while a call of a HIGH dhaga is under way.

One that blocks for 0.15 ms and takes 0.35 in all takes 0.45 beside 100 dhagas that compute and 16 threads at work; with
50 µs 0.51, with 5 µs no less. Threads that compute side by side lose about a quarter by it: so it is for urgent calls.
"""


class Haste:
    """Sets Python's switch interval, which is one for all threads, to what the calls under way need; never above it.

    When none is under way it is what it was, or what somebody else has set meanwhile.
    """

    def __init__(self) -> None:
        self.own = self.usual = sys.getswitchinterval()
        self.start_anew()

    def start_anew(self) -> None:
        """Have no calls under way: in the beginning, and in a forked child."""
        self.guard = originals.RLock()  # a signal's handler may make a call, too
        self.under_way = [0, 0]  # of HIGH dhagas, and all others
        self.adjust()

    def begin(self, caller: Waiter | None) -> int:
        """Note a call. Returns: what to end it with."""
        kind = 0 if getattr(caller, "rank", None) is HIGH else 1
        with self.guard:
            self.under_way[kind] += 1
            if self.under_way[kind] == 1:
                self.adjust()
        return kind

    def end(self, kind: int) -> None:
        """Forget a call, if it is known: not so one of the parent process."""
        with self.guard:
            if self.under_way[kind]:
                self.under_way[kind] -= 1
                if not self.under_way[kind]:
                    self.adjust()

    def adjust(self) -> None:
        """Set the interval anew, if it is to change."""
        now = sys.getswitchinterval()
        if now != self.own:
            self.usual = now
        urgent, others = self.under_way
        wanted = AT_ONCE if urgent else SOON if others else self.usual
        if wanted > self.usual:
            wanted = self.usual
        if wanted != now:
            sys.setswitchinterval(wanted)
            now = sys.getswitchinterval()  # whole microseconds
        self.own = now


haste = Haste()


def be_punctual(thread: int | None) -> None:
    """Have the waits of an OS thread end on time, which Haste counts on; Linux adds up to 50 µs by default.

    Of each taking of the interpreter lock beside dhagas that compute that is half: 0.12 -> 0.07 ms.
    """
    try:
        with open(f"/proc/{thread}/timerslack_ns", "w") as file:
            file.write("1")
    except OSError:  # another system, or a /proc that may not be written
        pass
