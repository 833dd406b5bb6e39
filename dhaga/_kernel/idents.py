"""Idents of threads: whose one is, and in which OS thread that runs. C takes an ident for a pthread_t.

A dhaga's ident counts from 1, so that none is given out twice; an OS thread's is its pthread_t, an address. C functions
dereference what they are given: ``os_thread_of`` translates it first.
"""

from __future__ import annotations

import errno
import os

from .microthread import Dhaga, Main, next_ident
from .scheduler import schedulers


def live_dhaga(ident: int) -> Dhaga | None:
    """Return the dhaga with this ident, while it lives. From: any thread."""
    for scheduler in list(schedulers):
        for dhaga in list(scheduler._live):
            if dhaga.ident == ident:
                return dhaga
    return None


def live_main(ident: int) -> Main | None:
    """Return the main code of the OS thread with this ident, if a scheduler serves that code. From: any thread."""
    for scheduler in list(schedulers):
        main = scheduler._main
        if scheduler._thread_ident == ident and isinstance(main, Main):
            return main
    return None


def os_thread_of(ident: int) -> int:
    """Return the ident of the OS thread that runs a dhaga; the ident of an OS thread is returned as it is.

    Raises: ProcessLookupError for a dhaga that has ended, and for 0.
    """
    dhaga = live_dhaga(ident)
    if dhaga is not None and dhaga.scheduler._thread_ident:
        return dhaga.scheduler._thread_ident
    if is_dhaga_ident(ident):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return ident


def is_dhaga_ident(ident: int) -> bool:
    """Return whether a number is no address, but the ident of a dhaga, of this moment or an earlier one."""
    # The counter tells its value only by counting on.
    return 0 <= ident < next_ident()
