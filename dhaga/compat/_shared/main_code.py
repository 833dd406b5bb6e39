"""The main code as a greenlet, because gevent and eventlet treat the main code like any other greenlet."""

from __future__ import annotations

from typing import Any

from ..._kernel.run.attachment import schedulers
from ..._kernel.run.microthread import Dhaga


def waiter_of(greenlet: Any) -> Any:
    """Return the waiter of a greenlet: for a dhaga, the dhaga itself; for a main greenlet, the waiter of its main code.

    From: any OS thread. Raises: TypeError for any other object.
    """
    if isinstance(greenlet, Dhaga):
        return greenlet
    for scheduler in list(schedulers):
        main: Any = scheduler.main_waiter
        if main is not None and (main is greenlet or getattr(main, "own_greenlet", None) is greenlet):
            return main
    raise TypeError(f"{greenlet!r} is neither one of Dhaga's microthreads nor the main code of a thread with any")
