"""The result of ``threading.current_thread()`` in a greenthread: a thread with a name, which can be joined."""

from __future__ import annotations

import itertools
from typing import Any

from ..._kernel.run.idents import ident_of
from ...threading import _DummyThread

number = itertools.count(1).__next__


class GreenThreadStandIn(_DummyThread):
    """Stand-in for a greenthread. Source: the result of ``eventlet.green.threading.current_thread``."""

    def __init__(self, greenthread: Any) -> None:
        super().__init__(f"GreenThread-{number()}", ident_of(greenthread), greenthread.is_alive, True)
        self._g = greenthread

    def __repr__(self) -> str:
        state = "started" if self.is_alive() else "stopped"
        return f"<_GreenThread({self.name}, {state} daemon {self.ident})>"

    def join(self, timeout: float | None = None) -> None:
        """Wait for the greenthread's end. Parks: until then, or for ``timeout`` seconds."""
        try:
            self._g.join(timeout)
        except TimeoutError:
            pass  # as a thread's: is_alive() tells

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    getName = get_name

    def set_name(self, name: str) -> None:
        """Set the name."""
        self.name = name

    setName = set_name

    def is_daemon(self) -> bool:
        """Return True: the end of the program does not wait for it."""
        return True

    isDaemon = is_daemon

    def isAlive(self) -> bool:
        """Return whether the greenthread has not ended."""
        return self.is_alive()
