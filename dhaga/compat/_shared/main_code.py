"""The main code as a greenlet: gevent and eventlet treat it like any other."""

from __future__ import annotations

from typing import Any

from ..._kernel.run.attachment import schedulers
from ..._kernel.run.microthread import Dhaga


def waiter_of(greenlet: Any) -> Any:
    """Return a greenlet's waiter: a dhaga itself, or the main code for its own greenlet.

    From: any OS thread. Raises: TypeError for any other object.
    """
    if isinstance(greenlet, Dhaga):
        return greenlet
    for scheduler in list(schedulers):
        main: Any = scheduler.main_waiter
        if main is not None and (main is greenlet or getattr(main, "own_greenlet", None) is greenlet):
            return main
    raise TypeError(f"{greenlet!r} is neither one of Dhaga's microthreads nor the main code of a thread with any")
