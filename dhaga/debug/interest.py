"""Interest: what costs something is done only as long as somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable

from dhaga.kernel import originals

from .helpers import Helper, resting

KEPT = 5.0
"""Seconds without a question after which nobody is interested any more."""

LOOK_SECONDS = 0.5


class NotBegun(Exception):
    """At interpreter exit no thread begins any more that would see the end of an interest."""


class Interest:
    """A question is asked in a ``with`` block of this, one at a time; when none comes any more ``over()`` is called."""

    def __init__(self, name: str, over: Callable[[], object]) -> None:
        self.name = name
        self.over = over
        self.asked = 0.0
        self.guard = originals.allocate_lock()
        self.thread: Helper | None = None
        self.lost = False
        self.bell = originals.allocate_lock()
        self.bell.acquire()

    def __enter__(self) -> None:
        self.guard.acquire()
        self.asked = originals.monotonic()
        try:
            if self.thread is None and not self.lost:
                self.thread = Helper(self.name, self.run)
        except RuntimeError as error:
            self.guard.release()
            raise NotBegun from error

    def __exit__(self, *_: object) -> None:
        if self.lost:
            self.over()
        self.guard.release()

    def run(self) -> None:
        while self.lasts():
            with resting():
                self.bell.acquire(timeout=LOOK_SECONDS)

    def lasts(self) -> bool:
        with self.guard:
            if not self.lost and originals.monotonic() - self.asked < KEPT:
                return True
            self.over()
            self.thread = None
            return False

    def lose(self) -> None:
        """End it now, for good."""
        self.lost = True
        thread = self.thread
        if thread is not None and self.bell.locked():
            self.bell.release()
            thread.join()
