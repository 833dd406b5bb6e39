"""The switch interval of the interpreter while offloaded calls run: it decides how soon a thread gets the interpreter
lock from a dhaga.

The interval is one value for the process. ``SwitchInterval`` counts running calls in two classes, of HIGH dhagas and
all others, and sets the interval at each first and last one. If the program sets an interval meanwhile, the program's
interval is restored. Calls begin and end in any OS thread, also in a signal handler: an RLock of the OS guards the
counts.
"""

from __future__ import annotations

import sys

from .._kernel import originals
from .._kernel.run.run_queues import HIGH
from .._kernel.wait.waiter import Waiter

OFFLOAD_INTERVAL = 0.000_1
"""Seconds that a thread waits for the interpreter lock before it requests it, while a call runs.

Python's default of 5 ms starts anew whenever the lock is released and acquired again. A scheduler in pure Python whose
dhagas compute does so every 0.25 ms, to poll for events: a call then waits until it wins a race, up to 1.2 s. (With an
interval of 0.2 ms it still waits up to 0.1 s, if the system adds 50 µs to each wait.)
"""

URGENT_INTERVAL = 0.000_02
"""The interval while a call of a HIGH dhaga runs.

A call that blocks for 0.15 ms takes 0.35 ms in all. Beside 100 computing dhagas and 16 busy threads it takes 0.45 ms
with this interval, and 0.51 ms with 50 µs; 5 µs is no better than 20 µs. It slows down threads that compute at the same
time by about a quarter, so it is only for urgent calls.
"""

URGENT, OTHER = 0, 1
"""The classes of calls: those of HIGH dhagas, and all others."""


class SwitchInterval:
    """Lowers ``sys.setswitchinterval`` (process-wide) while offloaded calls run, then restores it. Never raises it."""

    def __init__(self) -> None:
        self.last_set = self.usual = sys.getswitchinterval()
        self.reset()

    def reset(self) -> None:
        """Start without running calls: at first, and in a forked child."""
        self.guard = originals.RLock()  # re-entrant, because a signal handler may also offload
        self.running_calls = [0, 0]  # of HIGH dhagas, and all others
        self.adjust()

    def begin(self, caller: Waiter | None) -> int:
        """Count a call that begins. Returns: its class, for ``end``."""
        urgency = URGENT if getattr(caller, "own_priority", None) is HIGH else OTHER
        with self.guard:
            self.running_calls[urgency] += 1
            if self.running_calls[urgency] == 1:
                self.adjust()
        return urgency

    def end(self, classes: list[int]) -> None:
        """Count a call that ends: pop its class from the list; no-op the second time.

        After it the interval is the right one, also if another thread has just popped the class: under the guard. A
        call of the parent process is not counted in a forked child.
        """
        with self.guard:
            if classes and self.running_calls[urgency := classes.pop()]:
                self.running_calls[urgency] -= 1
                if not self.running_calls[urgency]:
                    self.adjust()

    def adjust(self) -> None:
        """Set the interval that the running calls need, if it differs. Under the guard."""
        now = sys.getswitchinterval()
        # The program has changed it: this value is to be restored, and is the upper bound.
        if now != self.last_set:
            self.usual = now
        urgent, others = self.running_calls
        wanted = URGENT_INTERVAL if urgent else OFFLOAD_INTERVAL if others else self.usual
        if wanted > self.usual:
            wanted = self.usual
        if wanted != now:
            sys.setswitchinterval(wanted)
            now = sys.getswitchinterval()  # rounded to whole microseconds
        self.last_set = now


switch_interval = SwitchInterval()


def set_timer_slack(thread: int | None) -> None:
    """Set the timer slack of an OS thread to 1 ns. By default Linux ends each wait of a thread up to 50 µs late.

    This halves the time to get the interpreter lock beside computing dhagas: 0.12 -> 0.07 ms.
    """
    try:
        with open(f"/proc/{thread}/timerslack_ns", "w") as file:
            file.write("1")
    except OSError:  # another system, or a /proc that may not be written
        pass
