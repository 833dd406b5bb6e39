"""A watch on the thread of the tester: who computes in it, or waits without parking, keeps all others from running."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import dhaga

TURN = 0.5  # seconds between two signs of life
PATIENCE = 2.0
"""Seconds without one, after which that is told: nothing that a tester does itself takes as long."""


class Watch:
    """Look from another OS thread whether dhagas still have their turns."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.tell = tell
        self.ident = threading.get_ident()
        self.seen = time.monotonic()
        self.over = threading.Event()

    def beat(self) -> None:
        """Give signs of life. Parks: `sleep`."""
        while True:
            self.seen = time.monotonic()
            dhaga.sleep(TURN)

    def look(self) -> None:
        """Tell once if there are none; in a thread of its own."""
        while not self.over.wait(TURN):
            silent = time.monotonic() - self.seen
            if silent > PATIENCE:
                self.tell(self.complaint(silent))
                return

    def complaint(self, silent: float) -> str:
        where = place(sys._current_frames().get(self.ident))
        return (
            f"{where} has kept all others from running for {silent:.0f} s: a scenario must not compute that long, nor "
            "wait in what does not park (user.sleep does). Ctrl-C twice ends it"
        )


def place(frame: FrameType | None) -> str:
    """Name the line that runs: the scenario's, where there is one above what runs."""
    found = frame
    while found is not None and found.f_globals.get("__name__", "").partition(".")[0] in sys.stdlib_module_names:
        found = found.f_back
    found = found or frame
    return f"{found.f_code.co_filename}:{found.f_lineno} ({found.f_code.co_name})" if found else "somebody"


@contextlib.contextmanager
def watched(tell: Callable[[str], object]) -> Iterator[None]:
    """Watch the caller's thread while the block runs."""
    watch = Watch(tell)
    thread = threading.Thread(target=watch.look, name="watch", daemon=True)
    thread.start()
    beating = dhaga.spawn(watch.beat, name="watch", daemon=True, priority=dhaga.HIGH)
    try:
        yield
    finally:
        watch.over.set()
        beating.cancel()
        beating.join()
        dhaga.offload(thread.join)
