"""``eventlet.greenlet``: names of the package ``greenlet``, on which both eventlet and Dhaga are based."""

from __future__ import annotations

from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["GreenletExit", "getcurrent", "greenlet"]
