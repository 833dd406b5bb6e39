"""pymssql on dhagas: ``install()`` makes its connections park where FreeTDS would wait.

pymssql calls its wait callback (``pymssql.set_wait_callback``) between a query and the answer; ``wait`` parks there. A
connect runs in an OS thread while its caller is parked (``dhaga.offload``). The rows of a result are read in C right
after the result's first bytes, so a large result over a slow line blocks the caller's OS thread. A connection's
``timeout`` begins only at the first byte of an answer. To limit the wait for a silent server, use ``dhaga.Timeout``.
As with threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). A callback of another package
is not replaced. In a patched program, a post-import hook calls ``install()`` as soon as pymssql is imported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import pymssql
from pymssql import _mssql

from .._kernel import originals
from .._kernel.wait.current import parking_waiter
from .._workers.offload import offload
from ..select import POLLIN, poll
from ._cut_off import cut_off

__all__ = ["install", "uninstall", "wait"]

_standard_connect = pymssql.connect


def install() -> None:
    """Make calls on all connections park, including open connections. Plain OS threads block as before."""
    if _mssql.wait_callback is None:
        pymssql.set_wait_callback(wait)
    pymssql.connect = connect


def uninstall() -> None:
    """Restore ``connect``, and remove the callback unless another one has replaced it."""
    if _mssql.wait_callback is wait:
        pymssql.set_wait_callback(None)
    pymssql.connect = _standard_connect


def wait(fd: int) -> None:
    """Wait until a server begins to answer. Parks: until the first byte comes (``poll``). A plain OS thread blocks.

    On an error, such as a cancel, the connection is shut down. Otherwise FreeTDS would wait in C for the end of the
    query.
    """
    polled = originals.poll() if parking_waiter() is None else poll()
    polled.register(fd, POLLIN)
    try:
        polled.poll()
    except BaseException:
        cut_off(fd)
        raise


@wraps(_standard_connect)
def connect(*args: Any, **options: Any) -> Any:
    """Return a new connection. Parks: while connecting (``offload``)."""
    if parking_waiter() is None:
        return _standard_connect(*args, **options)
    return offload(_standard_connect, *args, **options)
