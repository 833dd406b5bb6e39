"""Doors: the calls to the operating system that a simulation answers. It sets these names, and no others of Dhaga but
hooks.

| door                    | called by, and when                                       | in a simulation               |
|-------------------------|-----------------------------------------------------------|-------------------------------|
| ``names_of_caller``     | ``_iowait/dns``, for the functions that look names up in  | ``network/_names``            |
|                         | the caller's OS thread; None: the real ones               |                               |

A simulation runs in one OS thread. Calls from others, and for objects that are not simulated, still reach the operating
system. No door is on a hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

names_of_caller: Callable[[], Any] | None = None
