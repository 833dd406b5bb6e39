"""The end of a plain OS thread with a scheduler of its own: the dhagas end with the thread, in its last moment."""

from __future__ import annotations

import contextlib

from .. import originals
from ..run.main_code import Main
from ..wait.current import this_thread
from .shutdown import cancel_and_join, end_guests, ended_schedulers, interrupted, undelivered_exit, wait_for_dhagas


class ThreadEnd:
    """Finalizer in the thread-local data of a plain OS thread: ends its dhagas as at interpreter exit.

    Greenlets die with their thread without running a ``finally``: this is the last chance for them to run.
    """

    def __init__(self, main: Main) -> None:
        self.main = main

    def __del__(self) -> None:
        # Not in a collection of another thread, nor for a closed scheduler: there this thread does not end.
        if this_thread.main is None and originals.get_ident() == self.main.ident and not self.main.scheduler.closing:
            this_thread.main = self.main
            end_thread(self.main)


def end_thread(main: Main) -> None:
    """Join the dhagas of an OS thread that are not daemons, cancel the rest, also Threads, and close the scheduler.

    They run only in this thread, and would be lost with it.
    """
    own = [main.scheduler]
    undelivered_exit(main)
    with contextlib.suppress(BaseException):
        if not interrupted():
            wait_for_dhagas(own, lambda dhaga: True)
    end_guests()
    cancel_and_join(own, lambda dhaga: True)
    if main.scheduler.live:
        ended_schedulers.append(main.scheduler)
    main.scheduler.mode.close()
