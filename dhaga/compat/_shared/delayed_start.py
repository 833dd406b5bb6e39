"""Greenlets that are made now and started by a timer: ``spawn_later`` of gevent, ``spawn_after`` of eventlet."""

from __future__ import annotations

from typing import Any

from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.timers import Entry


class DelayedStart(Dhaga[Any]):
    """A dhaga that a timer may start. ``_to_start``: the timer's entry until then."""

    __slots__ = ()

    _to_start: Entry | None

    def _start_in(self, seconds: float) -> None:
        """Set the timer."""
        self._to_start = self.scheduler.expire_after(seconds, self)

    def _cancel_start(self) -> None:
        """Remove the timer; no-op if there is none."""
        entry, self._to_start = self._to_start, None
        if entry is not None:
            self.scheduler.timers.discard(entry)

    def _start_now(self) -> None:
        """Start, because its time has come."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Start; or expire a park, as every dhaga does. From: the scheduler's timers, on the hub."""
        if self._to_start is None:
            super()._expire()
        else:
            self._start_now()
