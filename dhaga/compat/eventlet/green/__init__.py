"""``eventlet.green``: standard modules whose waits park. They are Dhaga's own modules or private patched copies."""

from __future__ import annotations

from typing import Any

from . import _finder

_finder.install(__name__)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _finder.module_of(name)
