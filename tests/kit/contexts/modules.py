"""The thread modules of a table: the standard modules, or those of Dhaga."""

from __future__ import annotations

import sys

if sys.argv[1:] == ["faces"]:
    from dhaga import queue, threading
    from dhaga import thread as _thread
else:
    import _thread  # type: ignore[no-redef]
    import queue  # type: ignore[no-redef]
    import threading  # type: ignore[no-redef]

__all__ = ["_thread", "queue", "threading"]
