"""The OS threads of the debugging tools: watchdog, probes, inspector. They do not affect the program that they inspect.

The deadlock detector and the patch ignore them: an idle one (see ``idle``) cannot wake a dhaga. A thread of a pool is
taken off the detector's list by its *waker*, before it opens the gate, because a call under way will wake a dhaga. A
thread of the debugging tools takes itself off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._kernel import helper_threads, originals
from .._kernel.context_manager import contextmanager
from .._kernel.wait import deadlock


class HelperThread(helper_threads.HelperThread):
    """A helper thread that calls ``fn``; it starts at once. Raises: RuntimeError at interpreter exit."""

    def __init__(self, name: str, fn: Callable[..., object], *args: Any) -> None:
        super().__init__(f"dhaga-{name}", fn, args)
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
