"""``eventlet.greenlet``: names of the package ``greenlet``, the base of eventlet and Dhaga."""

from __future__ import annotations

from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["GreenletExit", "getcurrent", "greenlet"]
