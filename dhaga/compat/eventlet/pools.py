"""``eventlet.pools``: Pool, which creates objects on demand, lends them and takes them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ..._kernel.context_manager import contextmanager
from .queue import LightQueue

__all__ = ["Pool", "TokenPool"]

ROOM: Any = object()
"""A mark that makes a waiter create an object itself, because another caller's ``create`` has failed."""


class Pool:
    """A pool that lends at most ``max_size`` objects, which ``create`` makes. Source: ``eventlet.pools.Pool``."""

    def __init__(
        self,
        min_size: int = 0,
        max_size: int = 4,
        order_as_stack: bool = False,
        create: Callable[[], Any] | None = None,
    ) -> None:
        self.min_size = min_size
        self.max_size: int = max_size
        self.order_as_stack = order_as_stack
        self.current_size: int = 0
        self.channel: LightQueue = LightQueue(0)
        self.free_items: deque[Any] = deque()
        if create is not None:
            self.create = create  # type: ignore[method-assign]
        for _ in range(min_size):
            self.current_size += 1
            self.free_items.append(self.create())

    def create(self) -> Any:
        """Create an object. A subclass or the argument ``create`` defines this method."""
        raise NotImplementedError("Implement in subclass")

    def get(self) -> Any:
        """Return a free object or a new one. Parks: while all ``max_size`` objects are lent."""
        while not self.free_items and self.current_size >= self.max_size:
            item = self.channel.get()
            if item is not ROOM:
                return item
        if self.free_items:
            return self.free_items.popleft()
        self.current_size += 1
        return self._created()

    def _created(self) -> Any:
        """Return a new object. If ``create`` fails, leave its place in the pool to the first waiter."""
        try:
            return self.create()
        except BaseException:
            self.current_size -= 1
            if self.channel.getting():
                self.channel.put(ROOM, block=False)
            raise

    @contextmanager
    def item(self) -> Iterator[Any]:
        """Lend an object to a ``with`` block."""
        thing = self.get()
        try:
            yield thing
        finally:
            self.put(thing)

    def put(self, item: Any) -> None:
        """Return an object to the pool; the first waiter, if any, gets it."""
        if self.current_size > self.max_size:
            self.current_size -= 1
        elif self.channel.getting():
            self.channel.put(item, block=False)  # a park would raise a pending kill or Timeout, and lose the item
        elif self.order_as_stack:
            self.free_items.appendleft(item)
        else:
            self.free_items.append(item)

    def resize(self, new_size: int) -> None:
        """Set ``max_size``."""
        self.max_size = new_size

    def free(self) -> int:
        """Return the number of objects that are available without waiting."""
        return len(self.free_items) + self.max_size - self.current_size

    def waiting(self) -> int:
        """Return the number of waiters."""
        return max(0, self.channel.getting() - self.channel.putting())


class Token:
    """An item of a TokenPool."""


class TokenPool(Pool):
    """A Pool of tokens. A token has no content; the pool only limits how many are in use."""

    def create(self) -> Token:
        return Token()
