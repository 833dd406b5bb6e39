"""Where each dhaga was spawned, recorded while that is switched on."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dhaga.kernel import scheduler as kernel
from dhaga.kernel.microthread import Dhaga

from .stacks import Stack, stack_of

recorded: weakref.WeakKeyDictionary[Any, Stack] = weakref.WeakKeyDictionary()


def record(on: bool = True) -> None:
    """Record from now on, or no more, where dhagas are spawned.

    It costs some µs and one KB a spawn, by the depth of the stack, and nothing while it is off.
    """
    kernel.births = _note if on else None


@contextmanager
def recording() -> Iterator[None]:
    """Record within a block, and go on after it as before."""
    former, kernel.births = kernel.births, _note
    try:
        yield
    finally:
        kernel.births = former


def _note(dhaga: Any) -> None:
    recorded[dhaga] = stack_of(sys._getframe(2))


def of(waiter: object) -> Stack:
    """Return where a dhaga was spawned; empty if that was not recorded."""
    return recorded.get(waiter, ()) if isinstance(waiter, Dhaga) else ()
