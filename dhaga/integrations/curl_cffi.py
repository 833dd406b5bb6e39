"""curl_cffi on dhagas: ``install()`` makes each transfer run in an OS thread while its caller is parked.

libcurl waits in C for the whole transfer. curl_cffi has modes for the threads of gevent and eventlet that do the same,
but only for requests without a stream; this holds for each ``Curl.perform``. A cancel or a ``Timeout`` waits for the
end of the transfer: the handle is in that thread's hands: limit it with the request's own ``timeout``.
``AsyncSession`` waits on its event loop, and needs no hook. Under ``dhaga.monkey.patch`` a post-import hook installs it
as soon as curl_cffi is imported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from curl_cffi.curl import Curl

from .._kernel.wait.current import parking_waiter
from .._workers.offload import OffloadPool

__all__ = ["install", "uninstall"]

TRANSFERS = 256
"""Transfers at once; more wait. Each has an OS thread."""

pool: OffloadPool = OffloadPool("curl", TRANSFERS)
pool.awaited_at_exit = False

_standard_perform = Curl.perform


def install() -> None:
    """Make all handles of the process park. A plain OS thread blocks as before."""
    Curl.perform = perform


def uninstall() -> None:
    """Restore the standard method."""
    Curl.perform = _standard_perform


@wraps(_standard_perform)
def perform(self: Any, *args: Any, **options: Any) -> None:
    """Perform a transfer. Parks: until its end (``offload curl``)."""
    if parking_waiter() is None:
        _standard_perform(self, *args, **options)
    else:
        pool.finish(_standard_perform, self, *args, **options)
