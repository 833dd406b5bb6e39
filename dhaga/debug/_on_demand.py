"""On-demand probes: costly measurements that run only while clients query them.

A probe is off until the first query, which starts a helper thread. After ``KEEP_SECONDS`` without a query, that thread
calls ``on_idle`` and ends. The next query starts the thread and the measurement again. After ``close``, a query is
still answered, but the probe is switched off right after the answer. The lock ``guard`` serializes queries and calls of
``on_idle``. This lock is an OS lock, because queries come from OS threads, and schedulers may be blocked.

Rejected: start and stop commands from the client. A killed client never sends the stop command.
"""

from __future__ import annotations

from collections.abc import Callable

from .._kernel import originals
from ._helper_thread import HelperThread, idle

KEEP_SECONDS = 5.0
"""Number of seconds without a query after which a probe is switched off."""

CHECK_SECONDS = 0.5
"""Interval in seconds at which the helper thread checks the time of the last query."""


class ProbeUnavailable(Exception):
    """Raised if the interpreter is exiting, so that no thread can be started to switch the probe off."""


class OnDemand:
    """Switches a costly probe on while clients query the probe. Enter this context manager around each query.

    Blocks: while another query is running. From: any OS thread. Raises: ProbeUnavailable on entry.
    """

    def __init__(self, name: str, on_idle: Callable[[], object]) -> None:
        self.name = name
        self.on_idle = on_idle
        self.last_query = 0.0
        self.guard = originals.allocate_lock()
        self.thread: HelperThread | None = None
        self.closed = False
        self.closing = originals.allocate_lock()  # close() releases it, which ends the thread's wait
        self.closing.acquire()

    def __enter__(self) -> None:
        self.guard.acquire()
        self.last_query = originals.monotonic()
        try:
            if self.thread is None and not self.closed:
                self.thread = HelperThread(self.name, self.run)
        except RuntimeError as error:
            self.guard.release()
            raise ProbeUnavailable from error

    def __exit__(self, *_: object) -> None:
        if self.closed:
            self.on_idle()
        self.guard.release()

    def run(self) -> None:
        """Wait until the probe is switched off. This is the helper thread's function."""
        while self.is_wanted():
            with idle():
                self.closing.acquire(timeout=CHECK_SECONDS)

    def is_wanted(self) -> bool:
        """Return whether the probe stays on. Stop it after ``KEEP_SECONDS`` without a query, or after ``close``."""
        with self.guard:
            if not self.closed and originals.monotonic() - self.last_query < KEEP_SECONDS:
                return True
            self.on_idle()
            self.thread = None
            return False

    def close(self) -> None:
        """Switch the probe off permanently, and join its thread."""
        self.closed = True
        thread = self.thread
        if thread is not None and self.closing.locked():
            self.closing.release()
            thread.join()
