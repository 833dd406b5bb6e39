"""``gevent.signal``: signal handlers that may park."""

from __future__ import annotations

from ...signal import getsignal, set_wakeup_fd, signal

__all__ = ["getsignal", "set_wakeup_fd", "signal"]
