"""``eventlet.asyncio``: a greenthread for an awaitable. Both run on one loop, always."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from ...aio._await import await_
from .greenthread import GreenThread, spawn

__all__ = ["spawn_for_awaitable"]


def spawn_for_awaitable(coroutine: Awaitable[Any]) -> GreenThread:
    """Start a greenthread that awaits; its ``wait`` returns the result, its ``kill`` cancels the awaitable."""
    return spawn(await_, coroutine)
