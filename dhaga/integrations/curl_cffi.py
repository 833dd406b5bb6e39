"""curl_cffi on dhagas: ``install()`` makes each transfer run in an OS thread while its caller is parked.

In libcurl, a caller waits in C for the whole transfer. The modes of curl_cffi for gevent and eventlet also use OS
threads, but only for requests without a stream. This module covers each call of ``Curl.perform``. After a cancel or a
``Timeout``, the caller waits for the end of the transfer, because the OS thread uses the handle. Limit a transfer with
the request's own ``timeout``.
``AsyncSession`` waits on its event loop, and needs no replacement. In a patched program, a post-import hook calls
``install()`` as soon as curl_cffi is imported.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from curl_cffi.curl import Curl

from .._kernel.wait.current import parking_waiter
from .._workers.offload import OffloadPool

__all__ = ["install", "uninstall"]

TRANSFERS = 256
"""Maximum number of concurrent transfers, each of which needs an OS thread. Further transfers wait."""

pool: OffloadPool = OffloadPool("curl", TRANSFERS)
pool.awaited_at_exit = False

_standard_perform = Curl.perform


def install() -> None:
    """Make transfers of all handles park. Plain OS threads block as before."""
    Curl.perform = perform


def uninstall() -> None:
    """Restore the standard method."""
    Curl.perform = _standard_perform


@wraps(_standard_perform)
def perform(self: Any, *args: Any, **options: Any) -> None:
    """Perform a transfer. Parks: until the transfer ends (``offload curl``)."""
    if parking_waiter() is None:
        _standard_perform(self, *args, **options)
    else:
        pool.finish(_standard_perform, self, *args, **options)
