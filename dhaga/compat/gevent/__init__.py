"""gevent's public names, implemented on dhagas; see ``dhaga.compat``."""

from __future__ import annotations

from os import fork
from sys import getswitchinterval, setswitchinterval
from typing import Any

from ._links import iwait, wait
from .greenlet import Greenlet, joinall, killall
from .hub import GreenletExit, get_hub, getcurrent, idle, kill, reinit, sleep, spawn_raw
from .hub import signal as signal_handler
from .timeout import Timeout, with_timeout

__version__ = "26.0.0+dhaga"
version_info: tuple[int, int, int] = (26, 0, 0)
spawn: Any = Greenlet.spawn
spawn_later: Any = Greenlet.spawn_later

__all__ = ["Greenlet", "GreenletExit", "Timeout", "fork", "get_hub", "getcurrent", "getswitchinterval", "idle"]
__all__ += ["iwait", "joinall", "kill", "killall", "reinit", "setswitchinterval", "signal_handler", "sleep", "spawn"]
__all__ += ["spawn_later", "spawn_raw", "wait", "with_timeout"]
