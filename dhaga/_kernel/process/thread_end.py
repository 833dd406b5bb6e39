"""The end of an OS thread whose main code has a scheduler: the scheduler's dhagas end just before the thread."""

from __future__ import annotations

import contextlib

from .. import originals
from ..run.main_code import Main
from ..wait.current import this_thread
from .process_exit import cancel_and_join, end_guests, ended_schedulers, interrupted, undelivered_exit, wait_for_dhagas


class ThreadEnd:
    """An object in the thread-local data of an OS thread. Its finalizer ends the thread's dhagas as interpreter exit
    does.

    After the end of an OS thread, no ``finally`` block of its greenlets could run.
    """

    def __init__(self, main: Main) -> None:
        self.main = main

    def __del__(self) -> None:
        # A collection in another thread, or the close of the scheduler, may also free this object. In that case the
        # thread continues.
        if this_thread.main is None and originals.get_ident() == self.main.ident and not self.main.scheduler.closing:
            this_thread.main = self.main
            end_thread(self.main)


def end_thread(main: Main) -> None:
    """Join an OS thread's dhagas except daemons, cancel the remaining dhagas, and close the scheduler.

    Threads that are dhagas are also cancelled, because dhagas run only in this OS thread and could not outlive it.
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
