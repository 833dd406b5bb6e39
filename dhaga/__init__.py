"""Dhaga: cooperative microthreads with the interfaces of the standard library, on the standard event loop.

PYTEST_DONT_REWRITE: this module has no assert. ``python -m dhaga -m pytest`` imports this module before pytest. Without
this mark, pytest would warn, and many projects turn warnings into errors.
"""

from __future__ import annotations

from os import environ
from typing import TYPE_CHECKING, Any

from ._kernel import interpreter as interpreter  # isort: skip  (before greenlet is imported)
from . import aio
from ._iowait.offloaded_file import open as open  # not in __all__: a star import must not shadow the built-in open
from ._kernel.api import current, park, priority, sleep, spawn
from ._kernel.errors import Cancelled, Deadlock, LeftBehind, ParkError
from ._kernel.faces.environment import warn_of_misspelled
from ._kernel.run.microthread import Dhaga
from ._kernel.run.preemption import no_preempt
from ._kernel.run.run_queues import HIGH, LOW, NORMAL, Priority
from ._kernel.run.scheduler import Scheduler
from ._kernel.run.uncaught import excepthook
from ._kernel.spawn_later import spawn_later
from ._kernel.timeout import Timeout
from ._structured.no_park import no_park
from ._structured.race import race
from ._structured.scope import Scope, fail_after, move_on_after
from ._structured.shield import shield
from ._sync.capacity_limiter import CapacityLimiter
from ._sync.completion import as_completed, wait
from ._sync.rate_limiter import RateLimiter
from ._workers.offload import OffloadPool, offload, offloaded

__all__ = [
    "HIGH", "LOW", "NORMAL", "Cancelled", "CapacityLimiter", "Deadlock", "Dhaga", "LeftBehind", "OffloadPool",
    "ParkError", "Priority", "RateLimiter", "Scheduler", "Scope", "Timeout", "aio", "as_completed", "await_",
    "current", "excepthook", "fail_after", "move_on_after", "no_park", "no_preempt", "offload", "offloaded", "park",
    "priority", "race", "shield", "sleep", "spawn", "spawn_later", "wait",
]  # fmt: skip
__version__ = "0.1.0"

SUBMODULES = frozenset(
    {
        *("asyncio", "debug", "futures", "http", "integrations", "io", "metrics", "monkey", "os", "pool", "queue"),
        *("select", "selectors", "servers", "signal", "simulation", "socket", "ssl", "stream", "subprocess"),
        *("testing", "thread", "threading", "time"),
    }
)
"""The public modules of the package. The first use of ``dhaga.NAME`` imports the module."""

if TYPE_CHECKING:
    # These imports are for type checkers. With a __getattr__, each misspelled name would have the type Any.
    from . import asyncio as asyncio
    from . import debug as debug
    from . import futures as futures
    from . import http as http
    from . import integrations as integrations
    from . import io as io
    from . import metrics as metrics
    from . import monkey as monkey
    from . import os as os
    from . import pool as pool
    from . import queue as queue
    from . import select as select
    from . import selectors as selectors
    from . import servers as servers
    from . import signal as signal
    from . import simulation as simulation
    from . import socket as socket
    from . import ssl as ssl
    from . import stream as stream
    from . import subprocess as subprocess
    from . import testing as testing
    from . import thread as thread
    from . import threading as threading
    from . import time as time
    from .aio import await_
else:
    # CPython does not specialize attribute access of modules that have a __getattr__: each `dhaga.sleep` in a program
    # takes 48 ns instead of 9 ns. Names imported by `from dhaga import sleep`, as in the package's own code, have no
    # such cost.
    def __getattr__(name: str) -> Any:
        """Import a public module on first use. For another library's name, raise an error that names Dhaga's
        counterpart.
        """
        from importlib import import_module

        if name == "await_":  # deferred, because the first use of await_ affects asyncio.get_event_loop()
            globals()[name] = aio.await_
            return aio.await_
        if name in SUBMODULES:
            return import_module(f"{__name__}.{name}")
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _counterparts

        raise _counterparts.missing_name(name)


warn_of_misspelled(environ)

if not {"DHAGA_DEBUG", "DHAGA_DUMP_SIGNAL"}.isdisjoint(environ):
    from .debug import _environment

    _environment.switch_on()


def load_ipython_extension(shell: Any) -> None:
    """Make IPython run cells in dhagas after ``%load_ext dhaga``; see ``dhaga.integrations.ipython``."""
    from .integrations import ipython

    ipython.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Make IPython run cells outside dhagas again after ``%unload_ext dhaga``."""
    from .integrations import ipython

    ipython.unload(shell)


def __dir__() -> list[str]:
    """List the public names, and the public modules, which are imported on first use."""
    return sorted({*__all__, *SUBMODULES, "open", "__version__"})
