"""Thread idents: finding the dhaga or OS thread that has an ident, and the OS thread that runs a dhaga.

Dhagas are numbered from 1 (on Windows, above all idents of OS threads), so that no ident is used twice. An OS thread's
ident is its pthread_t, an address that C functions dereference. These functions would crash with a dhaga's number, so
callers pass ``os_thread_of(ident)`` to them. After ``use_addresses()`` the ident of a new dhaga is the address of its
greenlet, as in gevent and eventlet.
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
"""The number of the first dhaga whose ident is its address. The idents of all later dhagas are also addresses."""


def use_addresses() -> None:
    """Use ``id(dhaga)`` as the ident of each dhaga that is made from now on."""
    global first_by_address
    first_by_address = min(first_by_address, next_ident())


def ident_of(dhaga: Dhaga) -> int:
    """Return the ident that ``threading`` shows for a dhaga."""
    return dhaga.ident if dhaga.ident < first_by_address else id(dhaga)


def live_dhaga(ident: int) -> Dhaga | None:
    """Return the live dhaga with this ident, or None. From: any thread."""
    for scheduler in list(schedulers):
        for dhaga in list(scheduler.live):
            if ident_of(dhaga) == ident:
                return dhaga
    return None


def live_main(ident: int) -> Main | None:
    """Return the main code of the OS thread with this ident, or None if the thread has no scheduler. From: any
    thread.
    """
    for scheduler in list(schedulers):
        main = scheduler.main_waiter
        if scheduler.thread_ident == ident and isinstance(main, Main):
            return main
    return None


def os_thread_of(ident: int) -> int:
    """Return the ident of the OS thread that runs a dhaga. The ident of an OS thread is returned unchanged.

    Raises: ProcessLookupError for a dhaga that has ended, and for 0.
    """
    dhaga = live_dhaga(ident)
    if dhaga is not None and dhaga.scheduler.thread_ident:
        return dhaga.scheduler.thread_ident
    if is_dhaga_ident(ident):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return ident


def is_dhaga_ident(ident: int) -> bool:
    """Return whether a number is the ident of a present or past dhaga, and not of an OS thread."""
    # This call of next_ident() uses up a number, because an ``itertools.count`` can be read only by advancing it.
    if system.IDENTS_ABOVE <= ident < next_ident():
        return True
    return first_by_address < sys.maxsize and ident not in sys._current_frames()
