"""``eventlet.asyncio``: a greenthread that awaits. Greenthreads and asyncio always share one loop."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ...aio._await import await_
from .greenthread import GreenThread, spawn

__all__ = ["spawn_for_awaitable"]


def spawn_for_awaitable(coroutine: Awaitable[Any]) -> GreenThread:
    """Start a greenthread that awaits ``coroutine``. Its ``wait`` returns the result; ``kill`` cancels the await."""
    return spawn(await_, coroutine)
