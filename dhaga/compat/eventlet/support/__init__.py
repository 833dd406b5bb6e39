"""``eventlet.support``: helper functions that programs import."""

from __future__ import annotations

from typing import Any

from ..._absent import raise_missing
from . import greenlets
from ._errors import get_errno

__all__ = ["bytes_to_str", "get_errno", "greenlets"]


def bytes_to_str(b: bytes, encoding: str = "ascii") -> str:
    """Return decoded bytes."""
    return b.decode(encoding)


def __getattr__(name: str) -> Any:
    raise_missing(__name__, name)
