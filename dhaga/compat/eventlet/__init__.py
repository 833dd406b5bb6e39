"""eventlet's public names, implemented on dhagas; see ``dhaga.compat``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._absent import raise_missing
from . import convenience, event, greenio, greenpool, greenthread, hubs, patcher, queue, semaphore, support, timeout
from .convenience import StopServe, connect, listen, serve, wrap_ssl
from .event import Event
from .greenpool import GreenPile, GreenPool
from .greenthread import GreenThread, getcurrent, kill, sleep, spawn, spawn_after, spawn_after_local, spawn_n
from .patcher import import_patched, monkey_patch
from .queue import Queue
from .semaphore import BoundedSemaphore, CappedSemaphore, Semaphore
from .timeout import Timeout, is_timeout, with_timeout, wrap_is_timeout

__version__ = "0.41.0+dhaga"
version_info: tuple[int, int, int] = (0, 41, 0)
call_after_global, exc_after, TimeoutError = greenthread.call_after_global, greenthread.exc_after, Timeout


class EventletDeprecationWarning(Warning):
    """The warning that the real eventlet emits when it is imported. This package never emits it."""


__all__ = [
    "BoundedSemaphore", "CappedSemaphore", "Event", "EventletDeprecationWarning", "GreenPile", "GreenPool",
    "GreenThread", "Queue", "Semaphore", "StopServe", "Timeout", "TimeoutError", "call_after_global", "connect",
    "convenience", "event", "exc_after", "getcurrent", "greenio", "greenpool", "greenthread", "hubs", "import_patched",
    "is_timeout", "kill", "listen", "monkey_patch", "patcher", "queue", "semaphore", "serve", "sleep", "spawn",
    "spawn_after", "spawn_after_local", "spawn_n", "support", "timeout", "with_timeout", "wrap_is_timeout", "wrap_ssl",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("green", "tpool", "wsgi"):
        return import_module(f"{__name__}.{name}")
    raise_missing(__name__, name)
