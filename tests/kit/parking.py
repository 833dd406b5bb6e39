"""Code shared by the tests of primitives: dhagas that park in order, and victims for ``cancel_at_every_park``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dhaga
from dhaga.testing import settle


def parked(fn: Callable[..., Any], *args: Any, name: str | None = None, **kwargs: Any) -> dhaga.Dhaga:
    """Spawn a dhaga and return once it is parked or done, so that several dhagas park in the order of the calls."""
    d = dhaga.spawn(fn, *args, name=name, **kwargs)
    settle()
    return d


def victim(fn: Callable[..., object], *args: Any) -> dhaga.Dhaga:
    """Spawn a dhaga that may end silently with a cancel or a timeout, but with no other error."""
    return dhaga.spawn(bears_timeout, fn, *args, name="victim")


def bears_timeout(fn: Callable[..., object], *args: Any) -> None:
    try:
        fn(*args)
    except TimeoutError:
        pass
