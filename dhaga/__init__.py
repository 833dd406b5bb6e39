"""Dhaga: cooperative microthreads with the faces of the standard library, on the standard event loop."""

from __future__ import annotations

from .kernel.api import Timeout, current, park, sleep, spawn
from .kernel.errors import Cancelled, Deadlock, ParkError
from .kernel.microthread import Dhaga, excepthook
from .kernel.scheduler import Scheduler
from .offload import offload

__all__ = [
    "Cancelled",
    "Deadlock",
    "Dhaga",
    "ParkError",
    "Scheduler",
    "Timeout",
    "current",
    "excepthook",
    "offload",
    "park",
    "sleep",
    "spawn",
]
__version__ = "0.1.0"
