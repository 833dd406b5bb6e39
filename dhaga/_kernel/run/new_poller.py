"""The choice of the poller for a new scheduler."""

from __future__ import annotations

import os
from collections.abc import Callable

from tornado.ioloop import IOLoop

from .. import originals
from .edge_pollers import Epoll, Kqueue
from .ioloop_poller import IOLoopPoller
from .poller import Poller


def new_poller(ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> Poller:
    """Return the platform's best poller, or the poller that ``DHAGA_POLLER`` names (``ioloop``). Raises: ValueError."""
    chosen = os.environ.get("DHAGA_POLLER", "")
    if chosen not in ("", "ioloop"):
        raise ValueError(f"DHAGA_POLLER={chosen!r}: it takes only 'ioloop'; unset it for the platform's own poller")
    if originals.epoll and not chosen:
        return Epoll(ioloop, on_ready)
    if originals.kqueue and not chosen:
        return Kqueue(ioloop, on_ready)
    return IOLoopPoller(ioloop)
