"""The joiner of a dhaga for a coroutine that awaits it: ``Dhaga.__await__`` adds it."""

from __future__ import annotations

import asyncio
from typing import Any

from ..wait.deadlock import mark_own


class FutureJoiner:
    """Joiner for a coroutine that awaits a dhaga: its wake resolves a Future on the coroutine's own loop."""

    __slots__ = ("future", "loop", "ticket")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        mark_own(self.future)
        self.ticket: list[Any] = [self]

    def deliver_wake(self, value: object = None) -> None:
        try:
            self.loop.call_soon_threadsafe(self.resolve, value)
        # The loop is closed, and no coroutine awaits the dhaga.
        except RuntimeError:
            pass

    def resolve(self, value: object) -> None:
        if not self.future.done():
            self.future.set_result(value)
