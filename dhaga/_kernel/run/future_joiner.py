"""The joiner for a coroutine that awaits a dhaga. Joiners are the objects that a dhaga wakes at its end."""

from __future__ import annotations

import asyncio
from typing import Any

from ..wait.deadlock import mark_own


class FutureJoiner:
    """Joiner that ``Dhaga.__await__`` adds. Its wake resolves a Future on the loop of the awaiting coroutine."""

    __slots__ = ("future", "loop", "ticket")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        mark_own(self.future)
        self.ticket: list[Any] = [self]

    def deliver_wake(self, value: object = None) -> None:
        try:
            self.loop.call_soon_threadsafe(self.resolve, value)
        # The loop is closed, so no coroutine awaits the dhaga any more.
        except RuntimeError:
            pass

    def resolve(self, value: object) -> None:
        if not self.future.done():
            self.future.set_result(value)
