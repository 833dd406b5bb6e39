"""``gevent.threading``: the standard ``threading`` on dhagas; see ``dhaga.threading``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import threading as ours
from ..._kernel.faces.stdlib_face import fall_back_to

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(ours, globals())
__all__ = [name for name in dir(ours) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
