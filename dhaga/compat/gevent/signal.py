"""``gevent.signal``: handlers of signals that park."""

from __future__ import annotations

from ...signal import getsignal, signal

__all__ = ["getsignal", "signal"]
