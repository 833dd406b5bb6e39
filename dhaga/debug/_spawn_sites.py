"""Spawn sites: the stack at which each dhaga was spawned, recorded while that is switched on.

It is off at first, since it costs some µs and one KB a spawn, by the depth of the stack. Sites are kept by weak
reference, so that they go with their dhagas; switching off keeps those recorded.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .._kernel import hooks
from .._kernel.context_manager import contextmanager
from .._kernel.microthread import Dhaga
from .._kernel.stacks import Stack, stack_of

recorded: weakref.WeakKeyDictionary[Any, Stack] = weakref.WeakKeyDictionary()


def record(on: bool = True) -> None:
    """Switch the recording of spawn sites on or off, for all schedulers.

    Parks: never. From: any thread. A spawn costs some µs and one KB more, by the depth of the stack.
    """
    hooks.on_spawn = _record if on else None


@contextmanager
def recording() -> Iterator[None]:
    """Record within a block; afterwards as before."""
    before, hooks.on_spawn = hooks.on_spawn, _record
    try:
        yield
    finally:
        hooks.on_spawn = before


def _record(dhaga: Any) -> None:
    recorded[dhaga] = stack_of(sys._getframe(2))


def spawn_site_of(waiter: object) -> Stack:
    """Return the stack at which a dhaga was spawned; empty if that was not recorded."""
    return recorded.get(waiter, ()) if isinstance(waiter, Dhaga) else ()
