"""The guards of atomic lines, which exist only on a build without the interpreter lock: see ``atomic_lines.py``.

This module is imported before all modules with atomic lines, because this module installs the import hook. A guard is
an ``RLock`` or, with the accelerator, a ``Guard``: the compiled functions hold the same guard around their steps.
"""

from __future__ import annotations

import gc
import sys
from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..platform.system import system
from .requirements import FREE_THREADED


def fence(shared: Any) -> None:
    """Order this thread's writes before its later reads, as seen by another thread that changes ``shared`` (a list or
    deque).

    The other thread first changes ``shared`` and then reads the data that this thread has written. An empty ``extend``
    acquires the lock of ``shared``, as the other thread's change does. So at least one of the two threads sees the
    other's writes. Without the fence, on a CPU with a weak memory order (ARM), both threads might read too early. Only
    free-threaded builds need the fence: on other builds the interpreter lock has the same effect.
    """
    shared.extend(())


if TYPE_CHECKING or not FREE_THREADED:

    class Guarded:
        """Base of classes whose objects have atomic lines."""

        __slots__ = ()

    class GuardedTogether:
        """Base of classes that have atomic lines but cannot have another slot, such as greenlets."""

        __slots__ = ()

    TicketDeque = deque

    def use_guards(kind: Callable[[], Any]) -> None:
        """Use this kind of guard from now on. From: the accelerator, imported before any guarded object is made."""

else:
    new_guard: Callable[[], Any] = RLock

    def use_guards(kind: Callable[[], Any]) -> None:
        global new_guard
        new_guard = kind
        GuardedTogether._guard = kind()

    class Guarded:
        """Base of classes whose objects have atomic lines; each object has a guard."""

        __slots__ = ("_guard",)

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__new__(cls)
            made._guard = new_guard()
            return made

    class GuardedTogether:
        """Base of classes that cannot have another slot, such as greenlets: all their objects share one guard."""

        __slots__ = ()
        _guard = new_guard()

    class TicketDeque(deque):
        """Base of wait queues. A queue changes only under its owner's guard, because the owner reads the queue in
        atomic lines.
        """

        __slots__ = ("_guard",)

        def __new__(cls, owner: object, *_: Any) -> Any:
            made = super().__new__(cls)
            guard = getattr(owner, "_guard", None)
            # An owner without atomic lines has no guard.
            made._guard = new_guard() if guard is None else guard
            return made

        def append(self, ticket: Any) -> None:
            with self._guard:
                super().append(ticket)

        def popleft(self) -> Any:
            with self._guard:
                return super().popleft()

        def pop(self) -> Any:
            with self._guard:
                return super().pop()

        def insert(self, index: int, ticket: Any) -> None:
            with self._guard:
                super().insert(index, ticket)

    def free_in_child() -> None:
        """Free the guards that other OS threads held at a fork. Guards of the accelerator free themselves.

        From: a forked child. Rejected: a list of all guards. The list would make each new lock, queue or event slower,
        while this search through all objects takes time only at a fork.
        """
        if new_guard is not RLock:
            return
        guarded = [each for each in gc.get_objects() if issubclass(type(each), (Guarded, TicketDeque))]
        for guard in (GuardedTogether._guard, *(getattr(each, "_guard", None) for each in guarded)):
            if type(guard) is RLock and not guard._is_owned():
                guard._at_fork_reinit()

    # This module is imported first, so a child frees the guards before Dhaga's other handlers run.
    system.register_at_fork(after_in_child=free_in_child)

    from .atomic_lines import Finder

    sys.meta_path.insert(0, Finder)
