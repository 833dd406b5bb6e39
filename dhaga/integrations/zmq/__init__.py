"""pyzmq on dhagas: ``install()`` makes sockets, pollers, proxies and ``Context.term`` park where libzmq would wait.

As in libzmq, a socket belongs to one OS thread at a time. Dhagas of one thread may share a socket if they hold a lock
around calls that belong together. A plain OS thread, a coroutine and a callback wait in C, as without ``install``. The
finalizer of an unclosed context also waits in C. ``proxy_steerable`` and ``monitored_queue`` run in an OS thread and
cannot be cancelled. In a patched program, a post-import hook calls ``install()`` as soon as zmq is imported.
"""

from __future__ import annotations

from ._install import install as install
from ._install import uninstall as uninstall

__all__ = ["install", "uninstall"]
