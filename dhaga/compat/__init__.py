"""Stand-ins for gevent and eventlet that run on dhagas: a program written for either package runs unchanged.

``python -m dhaga --as gevent program.py`` installs the names for one process. A program may also call
``install("gevent")`` itself.
"""

from __future__ import annotations

from ._install import NAMES, install, installed

__all__ = ["NAMES", "install", "installed"]
