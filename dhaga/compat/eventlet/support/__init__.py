"""``eventlet.support``: what programs take from there."""

from __future__ import annotations

from . import greenlets
from ._errors import get_errno

__all__ = ["get_errno", "greenlets"]
