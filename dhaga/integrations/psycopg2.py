"""psycopg2 on dhagas: ``install()`` has its connections park where libpq would wait.

It is what ``psycopg2.extensions.set_wait_callback`` is for, with its limits: COPY, large objects and replication are
refused with a ProgrammingError; a connection that one dhaga waits on another may ``cancel()``, but not close, as
psycopg2 then blocks the OS thread on a lock in C; and libpq looks up a host's name by itself, which blocks: if that
takes long, give ``hostaddr``. Under ``dhaga.monkey.patch`` it is installed as soon as psycopg2 is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg2.extensions import POLL_OK, POLL_READ, POLL_WRITE, get_wait_callback, set_wait_callback

from ..kernel.errors import ParkError
from ..select import POLLIN, POLLOUT, poll

__all__ = ["install", "uninstall", "wait"]

EVENTS = {POLL_READ: POLLIN, POLL_WRITE: POLLOUT}

former: list[Callable[[Any], object] | None] = []
"""What ``uninstall`` puts back."""


def install() -> None:
    """Have all connections of the process park, those open already, too. A plain OS thread blocks as before."""
    if not former:
        former.append(get_wait_callback())
        set_wait_callback(wait)


def uninstall() -> None:
    """Put back the callback that was there before ``install``, if it still is ours."""
    callback = former.pop() if former else None
    if get_wait_callback() is wait:
        set_wait_callback(callback)


def wait(connection: Any) -> None:
    """Wait until libpq has done what it is at. Parks: ``poll fd N``; a plain thread and the event loop block.

    If this raises, as on a cancel, psycopg2 closes the connection, of whose state nothing is known any more.
    Raises: what the server says.
    """
    while (state := connection.poll()) != POLL_OK:
        wait_for(connection.fileno(), EVENTS[state])


def wait_for(fd: int, event: int) -> None:
    asked = poll()
    asked.register(fd, event)
    try:
        asked.poll()
    except ParkError:  # a coroutine or a callback, which this would have blocked without us, too
        asked.real.poll()
