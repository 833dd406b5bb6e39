"""Thread idents: which dhaga or OS thread has an ident, and which OS thread runs it. C functions expect a pthread_t.

A dhaga's ident counts from 1, so that no ident is used twice; an OS thread's is its pthread_t, an address. C functions
dereference idents: pass ``os_thread_of(ident)`` to them. After ``use_addresses()`` a dhaga's ident is the address of
its greenlet, as in gevent and eventlet.
"""

from __future__ import annotations

import errno
import os
import sys

from ..platform.system import system
from .attachment import schedulers
from .main_code import Main
from .microthread import Dhaga, next_ident

first_by_address = sys.maxsize
"""Dhagas made from this number on have their address for an ident."""


def use_addresses() -> None:
    """Give the dhagas that are made from now on their ``id()`` for an ident."""
    global first_by_address
    first_by_address = min(first_by_address, next_ident())


def ident_of(dhaga: Dhaga) -> int:
    """Return the ident that ``threading`` shows for a dhaga."""
    return dhaga.ident if dhaga.ident < first_by_address else id(dhaga)


def live_dhaga(ident: int) -> Dhaga | None:
    """Return the dhaga with this ident, while it lives. From: any thread."""
    for scheduler in list(schedulers):
        for dhaga in list(scheduler.live):
            if ident_of(dhaga) == ident:
                return dhaga
    return None


def live_main(ident: int) -> Main | None:
    """Return the main code of the OS thread with this ident, if a scheduler serves that code. From: any thread."""
    for scheduler in list(schedulers):
        main = scheduler.main_waiter
        if scheduler.thread_ident == ident and isinstance(main, Main):
            return main
    return None


def os_thread_of(ident: int) -> int:
    """Return the ident of the OS thread that runs a dhaga; the ident of an OS thread is returned as it is.

    Raises: ProcessLookupError for a dhaga that has ended, and for 0.
    """
    dhaga = live_dhaga(ident)
    if dhaga is not None and dhaga.scheduler.thread_ident:
        return dhaga.scheduler.thread_ident
    if is_dhaga_ident(ident):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return ident


def is_dhaga_ident(ident: int) -> bool:
    """Return whether a number is the ident of a dhaga, present or past, and not an OS thread's."""
    # ``itertools.count`` cannot be read without advancing it.
    if system.IDENTS_ABOVE <= ident < next_ident():
        return True
    return first_by_address < sys.maxsize and ident not in sys._current_frames()
