"""OS threads of the debugging tools: watchdog, probes, inspector. They do not affect the program that they inspect.

They are daemons, and the deadlock detector and the patch ignore them: an idle helper thread (see ``idle``) cannot wake
a dhaga. ``_workers.worker_thread.WorkerThread`` is a separate class: it starts later than it is created, belongs to a
pool, and its *waker* takes it off the detector's list before it opens the gate, as a call under way will wake a dhaga;
a helper thread takes itself off. The two have only one line in common, ``daemon=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._kernel import originals
from .._kernel.context_manager import contextmanager
from .._kernel.wait import deadlock


class HelperThread(originals.Thread):
    """A daemon OS thread that calls ``fn``; it starts at once. Raises: RuntimeError at interpreter exit."""

    def __init__(self, name: str, fn: Callable[..., object], *args: Any) -> None:
        super().__init__(target=fn, args=args, name=f"dhaga-{name}", daemon=True)
        self.start()


@contextmanager
def idle() -> Iterator[None]:
    """Count the calling helper thread as idle in the block, so that a deadlock of the other threads is still detected.

    From: a helper thread, around its blocking call.
    """
    ident = originals.get_ident()
    deadlock.mark_idle(ident)
    try:
        yield
    finally:
        deadlock.idle.discard(ident)
