"""The standard ``selectors`` for dhagas: the method ``select`` of a selector parks where it would block.

Each class derives from the standard class, but uses the counterpart of its system call in ``dhaga.select``. A plain OS
thread blocks. All other names are the standard module's own.
"""

from __future__ import annotations

import select as system
import selectors as standard
from collections.abc import Callable
from typing import Any

from ._kernel import originals
from ._kernel.faces.stdlib_face import fall_back_to
from .select import select

__all__ = ["DefaultSelector", "SelectSelector"]

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class SelectSelector(standard.SelectSelector):
    """A selector that uses our ``select``, with the hook ``_select``. Source: ``selectors.SelectSelector``."""

    _select = staticmethod(select)


DefaultSelector: Any = SelectSelector

if hasattr(system, "poll"):
    from .select import poll

    class PollSelector(standard.PollSelector):
        """A selector that uses our ``poll``, with the hook ``_selector_cls``. Source: ``selectors.PollSelector``."""

        _selector_cls = poll

    __all__ += ["PollSelector"]
    DefaultSelector = PollSelector

if hasattr(system, "epoll"):
    from .select import epoll

    class EpollSelector(standard.EpollSelector):
        """A selector that uses our ``epoll``, with the hook ``_selector_cls``. Source: ``selectors.EpollSelector``."""

        _selector_cls = epoll

    __all__ += ["EpollSelector"]
    DefaultSelector = EpollSelector

if hasattr(system, "kqueue"):
    from .select import kqueue

    class KqueueSelector(originals.selector_over(kqueue)):  # type: ignore[misc]
        """A selector that uses our ``kqueue``. Source: ``selectors.KqueueSelector``."""

    __all__ += ["KqueueSelector"]
    DefaultSelector = KqueueSelector

# Private names by which standard modules refer to a selector class that they chose at import.
_ServerSelector = _PopenSelector = _TelnetSelector = _WaitSelector = vars().get("PollSelector", SelectSelector)
