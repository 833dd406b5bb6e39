"""Spawn sites: the stack at which each dhaga was spawned, recorded while recording is on.

It is off by default, because a spawn then costs a few µs and one KB more, depending on the depth of the stack. Sites
are kept in a weak dictionary, and so removed with their dhagas; switching off keeps the recorded sites.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

from .._kernel import hooks
from .._kernel.context_manager import contextmanager
from .._kernel.run.microthread import Dhaga
from .._kernel.stacks import Stack, stack_of

recorded: weakref.WeakKeyDictionary[Any, Stack] = weakref.WeakKeyDictionary()


def record(on: bool = True) -> None:
    """Switch the recording of spawn sites on or off, for all schedulers.

    Parks: never. From: any thread. A spawn costs a few µs and one KB more, depending on the depth of the stack.
    """
    hooks.on_spawn = _record if on else None


@contextmanager
def recording() -> Iterator[None]:
    """Record in a block; restore the previous setting at its end."""
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
