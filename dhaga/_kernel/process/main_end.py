"""The end of the main code, as an event. This event comes before the interpreter joins threads and calls exit handlers.

In some programs, threads wait for this event with ``threading.main_thread().join()``, or poll the main thread's
``is_alive()``.
"""

from __future__ import annotations

from .. import hooks
from ..wait.wait_queue import WaitQueue
from ..wait.waiter import TIMED_OUT


class MainEnd:
    """An event that is set once in each process, at the end of the main code."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset the event. From: a forked child, in which the code that has forked is the main code."""
        self.reached = False
        self._waiters = WaitQueue(self, "join")

    def set(self) -> None:
        """Set the event, and wake all its waiters. From: the main code."""
        self.reached = True
        self._waiters.wake_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the event. Parks: until the event is set (``join``). Returns: False after ``timeout`` seconds."""
        return self.reached or self._waiters.wait(True, self._wake_if_reached, timeout) is not TIMED_OUT

    def _wake_if_reached(self) -> None:
        if self.reached:
            self._waiters.wake_all()


main_end = MainEnd()
hooks.in_forked_child.append(main_end.reset)
