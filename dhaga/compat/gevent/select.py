"""``gevent.select``: the standard ``select`` on dhagas; see ``dhaga.select``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import select as ours
from ..._kernel.faces.stdlib_face import fall_back_to

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
