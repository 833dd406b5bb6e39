"""Helpers: OS threads of our own that serve whoever looks, and have no part in what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dhaga.kernel import deadlock, originals


class Helper(originals.Thread):
    """An OS thread, begun at once, that calls a function. It keeps no process from ending, nor a patch from coming."""

    def __init__(self, name: str, fn: Callable[..., object], *args: Any) -> None:
        super().__init__(target=fn, args=args, name=f"dhaga-{name}", daemon=True)
        self.start()


@contextmanager
def resting() -> Iterator[None]:
    """Wait for work within this block; from a helper. A deadlock of all others is seen meanwhile."""
    ident = originals.get_ident()
    deadlock.rest(ident)
    try:
        yield
    finally:
        deadlock.idle.discard(ident)
