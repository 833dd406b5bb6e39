"""The standard ``selectors`` on dhagas: ``select`` parks where it would block.

Each class is the standard's, over the counterpart of its system call in ``dhaga.select``. A plain OS thread blocks. All
other names are the standard module's own.
"""

from __future__ import annotations

import select as system
import selectors as standard
from collections.abc import Callable
from typing import Any

from ._kernel.stdlib_face import fall_back_to
from .select import select

__all__ = ["DefaultSelector", "SelectSelector"]

# The standard library's class, taken before a patch can replace it.
standard_kqueue: Any = getattr(standard, "KqueueSelector", None)

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class SelectSelector(standard.SelectSelector):
    """A selector over our ``select``. Source: ``selectors.SelectSelector``, by its hook ``_select``."""

    _select = staticmethod(select)


DefaultSelector: Any = SelectSelector

if hasattr(system, "poll"):
    from .select import poll

    class PollSelector(standard.PollSelector):
        """A selector over our ``poll``. Source: ``selectors.PollSelector``, by its hook ``_selector_cls``."""

        _selector_cls = poll

    __all__ += ["PollSelector"]
    DefaultSelector = PollSelector

if hasattr(system, "epoll"):
    from .select import epoll

    class EpollSelector(standard.EpollSelector):
        """A selector over our ``epoll``. Source: ``selectors.EpollSelector``, by its hook ``_selector_cls``."""

        _selector_cls = epoll

    __all__ += ["EpollSelector"]
    DefaultSelector = EpollSelector

if standard_kqueue is not None:

    class KqueueSelector(standard_kqueue):  # type: ignore[misc]
        """A selector over a kqueue, whose own fd our ``select`` waits for. Source: ``selectors.KqueueSelector``."""

        def select(self, timeout: float | None = None) -> Any:
            """Wait for events. Parks: ``select``."""
            ready = super().select(0)
            if ready or (timeout is not None and timeout <= 0):
                return ready
            select([self.fileno()], [], [], timeout)
            return super().select(0)

    __all__ += ["KqueueSelector"]
    DefaultSelector = KqueueSelector

# Private names under which standard modules have bound a class at import.
_ServerSelector = _PopenSelector = _TelnetSelector = _WaitSelector = vars().get("PollSelector", SelectSelector)
