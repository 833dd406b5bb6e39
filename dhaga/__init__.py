"""Dhaga: cooperative microthreads with the faces of the standard library, on the standard event loop."""

from __future__ import annotations

from os import environ

from . import aio
from .files import open as open  # not in __all__: a star import must not replace the built-in one
from .kernel.api import Timeout, current, park, priority, sleep, spawn
from .kernel.errors import Cancelled, Deadlock, ParkError
from .kernel.microthread import Dhaga, excepthook
from .kernel.priorities import HIGH, LOW, NORMAL, Priority
from .kernel.scheduler import Scheduler
from .offload import OffloadPool, offload, offloaded
from .races import race
from .scope import Scope, fail_after, move_on_after, no_park, shield
from .tasks import await_

__all__ = [
    "HIGH",
    "LOW",
    "NORMAL",
    "Cancelled",
    "Deadlock",
    "Dhaga",
    "OffloadPool",
    "ParkError",
    "Priority",
    "Scheduler",
    "Scope",
    "Timeout",
    "aio",
    "await_",
    "current",
    "excepthook",
    "fail_after",
    "move_on_after",
    "no_park",
    "offload",
    "offloaded",
    "park",
    "priority",
    "race",
    "shield",
    "sleep",
    "spawn",
]
__version__ = "0.1.0"

if not {"DHAGA_DEBUG", "DHAGA_DUMP_SIGNAL"}.isdisjoint(environ):
    from .debug import switches

    switches.switch_on()
