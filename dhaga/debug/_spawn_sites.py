"""Records spawn sites: the stack at which each dhaga was spawned.

Recording is off by default, because it costs a few µs and 1 KB for each spawn, depending on the depth of the stack. A
weak dictionary holds the sites, so a site is removed with its dhaga. Recorded sites stay when recording is switched
off.
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
    """Switch the recording of spawn sites on or off for all schedulers.

    Parks: never. From: any thread. Recording costs a few µs and 1 KB for each spawn, depending on the stack's depth.
    """
    hooks.on_spawn = _record if on else None


@contextmanager
def recording() -> Iterator[None]:
    """Record spawn sites in a block; restore the previous setting at the end of the block."""
    before, hooks.on_spawn = hooks.on_spawn, _record
    try:
        yield
    finally:
        hooks.on_spawn = before


def _record(dhaga: Any) -> None:
    recorded[dhaga] = stack_of(sys._getframe(2))


def spawn_site_of(waiter: object) -> Stack:
    """Return the recorded stack at which a dhaga was spawned; an empty stack without a record."""
    return recorded.get(waiter, ()) if isinstance(waiter, Dhaga) else ()
