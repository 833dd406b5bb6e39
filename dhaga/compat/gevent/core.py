"""``gevent.core``: the event masks of ``loop.io``; libev's loops are not available."""

from __future__ import annotations

from time import time
from typing import NoReturn

__all__ = ["READ", "WRITE", "loop", "time"]

READ, WRITE = 1, 2


def loop(*_: object, **__: object) -> NoReturn:
    """Raise NotImplementedError, because no separate loops exist."""
    raise NotImplementedError("each thread has one loop: gevent.get_hub().loop, or dhaga.current().scheduler.loop")
