"""The reprs of sockets, locks, events, semaphores and barriers under the patch.

They are like the standard reprs, but locks, events and semaphores also show the number of waiters. Programs and their
tests expect the standard reprs, and filters of warnings match the beginning of a socket's repr. Without the patch,
Dhaga's reprs are shorter. RLock also gets the standard ``__module__``, because trio recognizes RLock by this attribute.
Other classes keep their ``__module__``, because ``inspect.getsource``, ``typing.get_type_hints`` and ``pickle`` use
this attribute to find a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._kernel import originals
from .._sync.barrier import Barrier
from .._sync.event import Event
from .._sync.lock import Lock, RLock
from .._sync.semaphore import Semaphore
from ..socket import socket as Socket
from ._rebind import PatchLog

__all__ = ["use_standard_reprs"]

OWN_REPRS: dict[type, Callable[[Any], str]] = {
    Lock: Lock.__repr__,
    RLock: RLock.__repr__,
    Socket: Socket.__repr__,
}
"""Dhaga's own repr function of each class, which applies without the patch."""


def use_standard_reprs(log: PatchLog) -> None:
    """Set reprs like the standard ones in Dhaga's classes, until ``log.undo`` restores Dhaga's own reprs."""
    for kind, function in ((Lock, lock), (RLock, lock), (Event, event), (Semaphore, semaphore), (Barrier, barrier)):
        log.set(kind, "__repr__", function)
    log.set(Socket, "__repr__", socket)
    log.set(RLock, "__module__", originals.RLock.__module__)


def socket(self: Socket) -> str:
    return OWN_REPRS[Socket](self).replace("<dhaga.", "<", 1)  # a subclass's repr names the subclass's module


def lock(self: Lock | RLock) -> str:
    kind = RLock if isinstance(self, RLock) else Lock
    state = OWN_REPRS[kind](self).removeprefix(f"<{kind.__name__} ").removeprefix("unlocked, ").removesuffix(">")
    locked = "unlocked" if self._holder is None else "locked"
    # Between two holders, an RLock still has the former holder's count.
    count = f" count={0 if self._holder is None else self._count}" if isinstance(self, RLock) else ""
    return f"<{locked} threading.{type(self).__name__} object{count} at {id(self):#x}: {state}>"


def event(self: Event) -> str:
    return f"<{named(self)}, {len(self._waiters_)} parked: {'set' if self._flag else 'unset'}>"


def semaphore(self: Semaphore) -> str:
    most = getattr(self, "_initial_value", None)
    return f"<{named(self)}, {len(self._waiters_)} parked: value={self._value}{'' if most is None else f'/{most}'}>"


def barrier(self: Barrier) -> str:
    state = "broken" if self.broken else f"waiters={self.n_waiting}/{self.parties}"
    return f"<{named(self)}: {state}>"


def named(thing: object) -> str:
    return f"threading.{type(thing).__name__} at {id(thing):#x}"
