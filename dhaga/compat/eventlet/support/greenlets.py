"""``eventlet.support.greenlets``: names of the package ``greenlet``."""

from __future__ import annotations

from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["GreenletExit", "getcurrent", "greenlet"]
