"""The standard ``selectors`` on dhagas: ``select`` parks where it would have to wait.

Each class is the standard's, over what ``dhaga.select`` has in the place of the system's. A plain OS thread waits for
real. Whatever is not defined here is the standard module's own (``__getattr__``).
"""

from __future__ import annotations

import select as system
import selectors as standard
from typing import Any

from .select import select

__all__ = ["DefaultSelector", "SelectSelector"]

# The standard library's own, taken before anybody can patch them.
standard_default: Any = standard.DefaultSelector
standard_kqueue: Any = getattr(standard, "KqueueSelector", None)


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


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
        """A selector over a kqueue, whose own fd our ``select`` waits for. Source: the standard one."""

        def select(self, timeout: float | None = None) -> Any:
            """Wait for events. Parks: ``select``."""
            ready = super().select(0)
            if ready or (timeout is not None and timeout <= 0):
                return ready
            select([self.fileno()], [], [], timeout)
            return super().select(0)

    __all__ += ["KqueueSelector"]
    DefaultSelector = KqueueSelector

# What standard modules have bound at import by these private names.
_ServerSelector = _PopenSelector = _TelnetSelector = _WaitSelector = vars().get("PollSelector", SelectSelector)
