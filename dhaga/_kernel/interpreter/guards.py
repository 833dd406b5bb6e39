"""The guards of atomic lines, which exist on a build without the interpreter lock: see ``atomic_lines.py``.

Imported before all modules with such lines, because it brings the import hook there. A guard is an ``RLock``, or a
``Guard`` of the accelerator, whose compiled functions hold the same one around their steps.
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
    """Order this thread's last writes before its next reads, against a thread that changes ``shared``, a list or deque.

    The other thread changes ``shared`` first and then reads these writes. An empty ``extend`` acquires the lock of that
    object, as the change does: whichever comes first, one of the two threads sees the other's step. With a weak memory
    order (ARM) both could otherwise look too early. Only for free-threaded builds: on others the interpreter lock does
    the same.
    """
    shared.extend(())


if TYPE_CHECKING or not FREE_THREADED:

    class Guarded:
        """Base of classes whose objects have atomic lines."""

        __slots__ = ()

    class GuardedTogether:
        """The same for classes that cannot have another slot, such as greenlets."""

        __slots__ = ()

    TicketDeque = deque

    def use_guards(kind: Callable[[], Any]) -> None:
        """Make guards of this kind from now on. From: the accelerator, which is imported before there is any."""

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
        """The same for classes that cannot have another slot, such as greenlets: their objects share one guard."""

        __slots__ = ()
        _guard = new_guard()

    class TicketDeque(deque):
        """Base of wait queues: it changes under the guard of its owner, which looks at it in atomic lines."""

        __slots__ = ("_guard",)

        def __new__(cls, owner: object, *_: Any) -> Any:
            made = super().__new__(cls)
            guard = getattr(owner, "_guard", None)
            # An owner without atomic lines has none.
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
        """Free, in a forked child, the guards that other OS threads held. Those of the accelerator do so themselves.

        Rejected: a list of all guards. It would cost each primitive more than this look through all objects costs a
        fork.
        """
        if new_guard is not RLock:
            return
        guarded = [each for each in gc.get_objects() if issubclass(type(each), (Guarded, TicketDeque))]
        for guard in (GuardedTogether._guard, *(getattr(each, "_guard", None) for each in guarded)):
            if type(guard) is RLock and not guard._is_owned():
                guard._at_fork_reinit()

    # This module is imported first, so this comes before all else that Dhaga does in a child.
    system.register_at_fork(after_in_child=free_in_child)

    from .atomic_lines import Finder

    sys.meta_path.insert(0, Finder)
