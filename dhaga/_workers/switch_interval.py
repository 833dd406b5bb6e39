"""Control of ``sys.setswitchinterval`` while offloaded calls run. The interval decides how soon a waiting thread gets
the interpreter lock from a computing dhaga.

The process has a single interval. ``SwitchInterval`` counts two classes of running calls: the calls of dhagas with the
priority HIGH, and all others. It sets the interval when the first call of a class begins, and when the last call of a
class ends. If the program sets an interval meanwhile, the program's value is restored at the end. An RLock of the OS
protects the counts, because calls begin and end in any OS thread, and in signal handlers.
"""

from __future__ import annotations

import sys

from .._kernel import originals
from .._kernel.run.run_queues import HIGH
from .._kernel.wait.waiter import Waiter

OFFLOAD_INTERVAL = 0.000_1
"""The interval, in seconds, while a call runs. A thread waits this long for the interpreter lock, then requests it.

The wait starts again whenever another thread releases and acquires the lock. While dhagas compute, a scheduler in pure
Python does this every 0.25 ms, because it polls for events. With Python's default interval of 5 ms, the thread of a
call then never requests the lock, and waits up to 1.2 s until it wins a race. With an interval of 0.2 ms, the thread
still waits up to 0.1 s if the system adds 50 µs to each wait.
"""

URGENT_INTERVAL = 0.000_02
"""The interval, in seconds, while a call of a HIGH dhaga runs.

An offloaded call that blocks for 0.15 ms takes 0.35 ms. While 100 dhagas compute and 16 threads are busy, the call
takes 0.45 ms with an interval of 20 µs, and 0.51 ms with an interval of 50 µs. With an interval of 5 µs, the call is
not faster than with 20 µs. The interval of 20 µs is only used for urgent calls, because this interval slows down
computing threads by about a quarter.
"""

URGENT, OTHER = 0, 1
"""The classes of calls: URGENT for calls of HIGH dhagas, and OTHER for all others."""


class SwitchInterval:
    """The control of the process-wide switch interval, which is lowered while offloaded calls run, then restored."""

    def __init__(self) -> None:
        self.last_set = self.usual = sys.getswitchinterval()
        self.reset()

    def reset(self) -> None:
        """Reset the counts of running calls. From: ``__init__``, and a forked child."""
        self.guard = originals.RLock()  # re-entrant, because a signal handler may also offload
        self.running_calls = [0, 0]  # the counts of the classes URGENT and OTHER
        self.adjust()

    def begin(self, caller: Waiter | None) -> int:
        """Count a call that begins. Returns: the call's class, to be passed to ``end``."""
        urgency = URGENT if getattr(caller, "own_priority", None) is HIGH else OTHER
        with self.guard:
            self.running_calls[urgency] += 1
            if self.running_calls[urgency] == 1:
                self.adjust()
        return urgency

    def end(self, classes: list[int]) -> None:
        """Count the end of a call. ``classes``: a list with the call's class, which is popped. An empty list has no
        effect.

        The class is popped under the guard. If another thread has just popped the class, the interval is already
        adjusted when this method returns. A forked child ignores the end of a call that began in the parent.
        """
        with self.guard:
            if classes and self.running_calls[urgency := classes.pop()]:
                self.running_calls[urgency] -= 1
                if not self.running_calls[urgency]:
                    self.adjust()

    def adjust(self) -> None:
        """Set the interval that the running calls need. From: a holder of the guard, or ``reset``."""
        now = sys.getswitchinterval()
        # If the program has changed the interval, the program's value is the upper bound, and is restored at the end.
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

    With a slack of 1 ns, the thread gets the interpreter lock after 0.07 ms instead of 0.12 ms while dhagas compute.
    """
    try:
        with open(f"/proc/{thread}/timerslack_ns", "w") as file:
            file.write("1")
    except OSError:  # another system, or a read-only /proc
        pass
