"""On-demand probes: a costly measurement runs only while it is queried.

A probe is off until the first query, which starts a helper thread; after ``KEEP_SECONDS`` without a query, that thread
calls ``on_idle`` and ends. The next query starts thread and measurement again. ``close`` ends the probe for good: a
later query is still answered, and the probe is switched off right after it. ``guard`` serialises queries and switching
off; it is an OS lock, because queries come from OS threads while schedulers may be blocked.

Rejected: start and stop commands from the client. A killed client never sends the stop.
"""

from __future__ import annotations

from collections.abc import Callable

from .._kernel import originals
from ._helper_thread import HelperThread, idle

KEEP_SECONDS = 5.0
"""Time without a query after which a probe is switched off."""

CHECK_SECONDS = 0.5
"""Interval in which the helper thread checks the time of the last query."""


class ProbeUnavailable(Exception):
    """The interpreter is exiting: no thread could be started to switch the probe off."""


class OnDemand:
    """Keeps a costly probe on only while it is queried: enter this context manager around each query.

    Blocks: while another query is under way. From: any OS thread. Raises: ProbeUnavailable on entry.
    """

    def __init__(self, name: str, on_idle: Callable[[], object]) -> None:
        self.name = name
        self.on_idle = on_idle
        self.last_query = 0.0
        self.guard = originals.allocate_lock()
        self.thread: HelperThread | None = None
        self.closed = False
        self.closing = originals.allocate_lock()  # released by close(), which ends the thread's wait
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
        """Check until the probe is switched off; the helper thread's function."""
        while self.is_wanted():
            with idle():
                self.closing.acquire(timeout=CHECK_SECONDS)

    def is_wanted(self) -> bool:
        """Return whether the probe stays on; switch it off otherwise."""
        with self.guard:
            if not self.closed and originals.monotonic() - self.last_query < KEEP_SECONDS:
                return True
            self.on_idle()
            self.thread = None
            return False

    def close(self) -> None:
        """Switch the probe off now and for good, and join its thread."""
        self.closed = True
        thread = self.thread
        if thread is not None and self.closing.locked():
            self.closing.release()
            thread.join()
