"""``eventlet.greenlet``: names of the package ``greenlet``, on which eventlet and Dhaga stand."""

from __future__ import annotations

from greenlet import GreenletExit, getcurrent, greenlet

__all__ = ["GreenletExit", "getcurrent", "greenlet"]
