"""What the tests of primitives share: dhagas parked one after the other, victims for ``cancel_at_every_park``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dhaga
from dhaga.testing import settle


def parked(fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any) -> dhaga.Dhaga:
    """Spawn a dhaga and return once it is parked or done: so that several park in the order of their calls."""
    d = dhaga.spawn(fn, *args, name=name, **kwargs)
    settle()
    return d


def victim(fn: Callable[..., object], *args: Any) -> dhaga.Dhaga:
    """Spawn a dhaga that may end by a cancel or a timeout, silently, and by no other error."""
    return dhaga.spawn(bears_timeout, fn, *args, name="victim")


def bears_timeout(fn: Callable[..., object], *args: Any) -> None:
    try:
        fn(*args)
    except TimeoutError:
        pass
