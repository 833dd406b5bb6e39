"""``eventlet.pools``: a pool of objects that are created on demand, lent and returned."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ..._kernel.context_manager import contextmanager
from .queue import LightQueue

__all__ = ["Pool", "TokenPool"]


class Pool:
    """At most ``max_size`` objects, created by ``create``. Source: ``eventlet.pools.Pool``."""

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
        """Create an object. Defined by a subclass, or given as an argument."""
        raise NotImplementedError("Implement in subclass")

    def get(self) -> Any:
        """Return a free object, or a new one. Parks: while all ``max_size`` are lent."""
        if self.free_items:
            return self.free_items.popleft()
        if self.current_size < self.max_size:
            self.current_size += 1
            try:
                return self.create()
            except BaseException:
                self.current_size -= 1
                raise
        return self.channel.get()

    @contextmanager
    def item(self) -> Iterator[Any]:
        """Lend an object to a ``with`` block."""
        thing = self.get()
        try:
            yield thing
        finally:
            self.put(thing)

    def put(self, item: Any) -> None:
        """Return an object to the pool; the first waiter gets it."""
        if self.current_size > self.max_size:
            self.current_size -= 1
        elif self.channel.getting():
            self.channel.put(item)
        elif self.order_as_stack:
            self.free_items.appendleft(item)
        else:
            self.free_items.append(item)

    def resize(self, new_size: int) -> None:
        """Change ``max_size``."""
        self.max_size = new_size

    def free(self) -> int:
        """Return the number of objects available without a wait."""
        return len(self.free_items) + self.max_size - self.current_size

    def waiting(self) -> int:
        """Return the number of waiters."""
        return max(0, self.channel.getting() - self.channel.putting())


class Token:
    """Token of a TokenPool."""


class TokenPool(Pool):
    """A Pool of tokens, which only limit a number."""

    def create(self) -> Token:
        return Token()
