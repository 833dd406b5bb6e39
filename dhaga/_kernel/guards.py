"""The guards of atomic lines, which exist on a build without the interpreter lock: see ``atomic_lines.py``.

Imported before all modules with such lines, as it brings the import hook there.
"""

from __future__ import annotations

import sys
from _thread import RLock
from collections import deque
from typing import TYPE_CHECKING, Any

from .interpreter import FREE_THREADED

if TYPE_CHECKING or not FREE_THREADED:

    class Guarded:
        """Base of classes whose objects have atomic lines."""

        __slots__ = ()

    class GuardedTogether:
        """The same for classes that cannot have another slot, such as greenlets."""

        __slots__ = ()

    TicketDeque = deque

else:

    class Guarded:
        """Base of classes whose objects have atomic lines; each object has a guard."""

        __slots__ = ("_guard",)

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__new__(cls)
            made._guard = RLock()
            return made

    class GuardedTogether:
        """The same for classes that cannot have another slot, such as greenlets: their objects share one guard."""

        __slots__ = ()
        _guard = RLock()

    class TicketDeque(deque):
        """Base of wait queues: it changes under the guard of its owner, which looks at it in atomic lines."""

        __slots__ = ("_guard",)

        def __new__(cls, owner: object, *_: Any) -> Any:
            made = super().__new__(cls)
            guard = getattr(owner, "_guard", None)
            # An owner without atomic lines has none.
            made._guard = RLock() if guard is None else guard
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

    from .atomic_lines import Finder

    sys.meta_path.insert(0, Finder)
