"""``gevent.thread``: the standard ``_thread`` on dhagas; see ``dhaga.thread``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import thread as ours
from ..._kernel.faces.stdlib_face import fall_back_to
from ..._kernel.run.idents import ident_of
from ..._kernel.run.microthread import Dhaga

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]


def get_ident(gr: Any = None) -> int:
    """Return the ident of a greenlet (default: the running greenlet). Main code has the ident of its OS thread."""
    return ident_of(gr) if isinstance(gr, Dhaga) else ours.get_ident() if gr is None else id(gr)
