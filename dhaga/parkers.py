"""Who parks where the standard library would block the OS thread: a dhaga, or main code that has dhagas beside it."""

from __future__ import annotations

from .kernel.errors import ParkError
from .kernel.osthread import OSThread
from .kernel.waiter import Waiter
from .kernel.waiting import this_waiter


def parker() -> Waiter | None:
    """Return the caller if it parks; None: it is to block for real.

    So do plain OS threads, and the event loop: asyncio itself starts processes, and reads for an instant.
    """
    try:
        me = this_waiter()
    except ParkError:
        return None
    return None if isinstance(me, OSThread) else me
