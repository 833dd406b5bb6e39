"""What locks and their like say of themselves under the patch: as in the standard's ``threading``, and who waits.

Programs and their tests know those; without the patch ours are shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .changes import Changes
from .events import Barrier, Event
from .locks import Lock, RLock
from .semaphores import Semaphore

__all__ = ["follow_standard"]

LOCKS: dict[type, Callable[[Any], str]] = {Lock: Lock.__repr__, RLock: RLock.__repr__}
"""Our own reprs."""


def follow_standard(changes: Changes) -> None:
    """Have our classes speak as the standard's do, until ``changes`` are undone."""
    for kind, told in ((Lock, lock), (RLock, lock), (Event, event), (Semaphore, semaphore), (Barrier, barrier)):
        changes.set(kind, "__repr__", told)


def lock(self: Lock | RLock) -> str:
    kind = RLock if isinstance(self, RLock) else Lock
    state = LOCKS[kind](self).removeprefix(f"<{kind.__name__} ").removeprefix("unlocked, ").removesuffix(">")
    locked = "unlocked" if self.holder is None else "locked"
    return f"<{locked} threading.{type(self).__name__} object at {id(self):#x}: {state}>"


def event(self: Event) -> str:
    return f"<{named(self)}, {len(self.waiters)} parked: {'set' if self.flag else 'unset'}>"


def semaphore(self: Semaphore) -> str:
    most = getattr(self, "_initial_value", None)
    return f"<{named(self)}, {len(self.waiters)} parked: value={self._value}{'' if most is None else f'/{most}'}>"


def barrier(self: Barrier) -> str:
    state = "broken" if self.broken else f"waiters={self.n_waiting}/{self.parties}"
    return f"<{named(self)}: {state}>"


def named(thing: object) -> str:
    return f"threading.{type(thing).__name__} at {id(thing):#x}"
