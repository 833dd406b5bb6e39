"""OS threads of the debugging tools: watchdog, probes, inspector. They do not affect the program that they inspect.

The patch (``dhaga.monkey``) ignores these threads. The deadlock detector ignores them only while they are idle (see
``idle``), because an idle thread cannot wake a dhaga. An idle thread of an offload pool may wake a dhaga in its next
call. Therefore, the code that wakes a pool's thread first removes that thread from the idle threads. A thread of the
debugging tools removes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._kernel import helper_threads, originals
from .._kernel.context_manager import contextmanager
from .._kernel.wait import deadlock


class HelperThread(helper_threads.HelperThread):
    """A helper thread that calls ``fn`` and is started at once. Raises: RuntimeError at interpreter exit."""

    def __init__(self, name: str, fn: Callable[..., object], *args: Any) -> None:
        super().__init__(f"dhaga-{name}", fn, args)
        self.start()


@contextmanager
def idle() -> Iterator[None]:
    """Count the calling helper thread as idle during the block, so that deadlocks of other threads are still detected.

    From: a helper thread, around its blocking call.
    """
    ident = originals.get_ident()
    deadlock.mark_idle(ident)
    try:
        yield
    finally:
        deadlock.idle.discard(ident)
