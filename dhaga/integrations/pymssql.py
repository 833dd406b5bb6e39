"""pymssql on dhagas: ``install()`` makes its connections park where FreeTDS would wait.

It uses ``pymssql.set_wait_callback``, which pymssql calls between a query and its answer. The connect runs in an OS
thread while its caller is parked (``dhaga.offload``). The rows of a result are read in C right after its first
bytes: over a slow line a large result blocks. The ``timeout`` of a connection counts from the first byte of an answer:
limit a silent server with ``dhaga.Timeout``.
As in threads, only one dhaga at a time may use a connection (DB API, threadsafety 1). A callback of another package is
not replaced. Under ``dhaga.monkey.patch`` a post-import hook installs it as soon as pymssql is imported.
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
    """Make all connections of the process park, open ones included. A plain OS thread blocks as before."""
    if _mssql.wait_callback is None:
        pymssql.set_wait_callback(wait)
    pymssql.connect = connect


def uninstall() -> None:
    """Remove the callback, unless another one has replaced ours."""
    if _mssql.wait_callback is wait:
        pymssql.set_wait_callback(None)
    pymssql.connect = _standard_connect


def wait(fd: int) -> None:
    """Wait until a server answers. Parks: until then (``poll``); a plain thread blocks.

    If this raises, as on a cancel, the connection is cut off: FreeTDS would wait in C for the end of the query.
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
    """Connect. Parks: until then (``offload``)."""
    if parking_waiter() is None:
        return _standard_connect(*args, **options)
    return offload(_standard_connect, *args, **options)
