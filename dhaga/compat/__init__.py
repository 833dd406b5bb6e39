"""gevent and eventlet by their own names, on dhagas: a program of either runs unchanged.

``python -m dhaga --as gevent program.py`` does it for one process; ``install("gevent")`` for the code that calls it.
"""

from __future__ import annotations

from ._install import NAMES, install, installed

__all__ = ["NAMES", "install", "installed"]
