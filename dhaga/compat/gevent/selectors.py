"""``gevent.selectors``: the standard ``selectors`` on dhagas; see ``dhaga.selectors``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import selectors as ours
from ..._kernel.faces.stdlib_face import fall_back_to

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
__all__ += ["GeventSelector"]

GeventSelector = ours.DefaultSelector
