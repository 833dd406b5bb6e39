"""The object that ``threading.current_thread()`` returns in a greenthread: it has a name and can be joined."""

from __future__ import annotations

import itertools
from typing import Any

from ..._kernel.run.idents import ident_of
from ...threading import _DummyThread

number = itertools.count(1).__next__


class GreenThreadStandIn(_DummyThread):
    """Thread object of a greenthread. Source: the result of ``eventlet.green.threading.current_thread``."""

    def __init__(self, greenthread: Any) -> None:
        super().__init__(f"GreenThread-{number()}", ident_of(greenthread), greenthread.is_alive, True)
        self._g = greenthread

    def __repr__(self) -> str:
        state = "started" if self.is_alive() else "stopped"
        return f"<_GreenThread({self.name}, {state} daemon {self.ident})>"

    def join(self, timeout: float | None = None) -> None:
        """Wait until the greenthread ends. Parks: until then, at most ``timeout`` seconds."""
        try:
            self._g.join(timeout)
        except TimeoutError:
            pass  # as with a thread, is_alive() tells whether it has ended

    def get_name(self) -> str:
        """Return the thread's name."""
        return self.name

    getName = get_name

    def set_name(self, name: str) -> None:
        """Set the thread's name."""
        self.name = name

    setName = set_name

    def is_daemon(self) -> bool:
        """Return True, because the program ends without waiting for greenthreads."""
        return True

    isDaemon = is_daemon

    def isAlive(self) -> bool:
        """Return whether the greenthread has not ended."""
        return self.is_alive()
