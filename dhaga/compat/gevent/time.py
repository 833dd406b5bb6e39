"""``gevent.time``: the standard ``time`` on dhagas; see ``dhaga.time``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import time as ours
from ..._kernel.faces.stdlib_face import fall_back_to

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
