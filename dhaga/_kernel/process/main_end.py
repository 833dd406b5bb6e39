"""The end of the main code, as ``threading`` sees it: before threads are joined, and before exit handlers run.

Programs wait for it in threads (``threading.main_thread().join()``), or poll ``is_alive()``, and then end.
"""

from __future__ import annotations

from .. import hooks
from ..wait.wait_queue import WaitQueue
from ..wait.waiter import TIMED_OUT


class MainEnd:
    """An event that ``shutdown.at_exit`` sets, once a process."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child, the code that has forked is the main code."""
        self.reached = False
        self._waiters = WaitQueue(self, "join")

    def set(self) -> None:
        """Mark the end of the main code, and wake all that wait for it. From: the main code."""
        self.reached = True
        self._waiters.wake_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the main code. Parks: until then (``join``). Returns: False after ``timeout`` seconds."""
        return self.reached or self._waiters.wait(True, self._wake_if_reached, timeout) is not TIMED_OUT

    def _wake_if_reached(self) -> None:
        if self.reached:
            self._waiters.wake_all()


main_end = MainEnd()
hooks.in_forked_child.append(main_end.reset)
