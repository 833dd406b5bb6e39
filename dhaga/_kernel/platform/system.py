"""``system`` is the module ``posix`` or ``windows``: everything that depends on the operating system.

Other modules use ``system`` instead of ``sys.platform``, ``os.name``, or modules that one of the systems lacks.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from . import windows as system
else:
    from . import posix as system

__all__ = ["system"]
