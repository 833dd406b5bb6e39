"""``system``: what the operating system decides, as one set of names from ``posix`` or ``windows``.

All other modules ask it, and none asks ``sys.platform``, ``os.name`` or for a module that one system lacks.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from . import windows as system
else:
    from . import posix as system

__all__ = ["system"]
