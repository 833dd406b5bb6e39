"""OS threads of the debugging tools: watchdog, probes, inspector. They take no part in what they look at.

They are daemons, and the deadlock detector and the patch ignore them: a helper thread that is idle (see ``idle``)
cannot wake a dhaga. ``_workers.thread_pool.WorkerThread`` is a class of its own: it starts later than it is made,
belongs to a pool, and its *waker* takes it off the detector's list before it opens the gate, as a call under way will
wake a dhaga; a helper thread takes itself off. What both share is one line, ``daemon=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._kernel import deadlock, originals
from .._kernel.context_manager import contextmanager


class HelperThread(originals.Thread):
    """A daemon OS thread that calls ``fn``; it starts at once. Raises: RuntimeError at interpreter exit."""

    def __init__(self, name: str, fn: Callable[..., object], *args: Any) -> None:
        super().__init__(target=fn, args=args, name=f"dhaga-{name}", daemon=True)
        self.start()


@contextmanager
def idle() -> Iterator[None]:
    """Count the calling helper thread as idle within the block, so that a deadlock of all others is still detected.

    From: a helper thread, around its blocking call.
    """
    ident = originals.get_ident()
    deadlock.mark_idle(ident)
    try:
        yield
    finally:
        deadlock.idle.discard(ident)
