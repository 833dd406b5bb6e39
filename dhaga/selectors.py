"""The standard ``selectors`` on dhagas: ``select`` parks where it would block.

Each class is the standard's, over the counterpart of its system call in ``dhaga.select``. A plain OS thread blocks. All
other names are the standard module's own.
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

if hasattr(system, "kqueue"):
    from .select import kqueue

    class KqueueSelector(originals.selector_over(kqueue)):  # type: ignore[misc]
        """A selector over our ``kqueue``. Source: ``selectors.KqueueSelector``."""

    __all__ += ["KqueueSelector"]
    DefaultSelector = KqueueSelector

# Private names under which standard modules have bound a class at import.
_ServerSelector = _PopenSelector = _TelnetSelector = _WaitSelector = vars().get("PollSelector", SelectSelector)
