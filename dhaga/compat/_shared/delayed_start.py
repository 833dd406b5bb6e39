"""Greenlets that a timer starts later: ``spawn_later`` of gevent, ``spawn_after`` of eventlet."""

from __future__ import annotations

from typing import Any

from ..._kernel.run.microthread import Dhaga
from ..._kernel.run.timers import Entry


class DelayedStart(Dhaga[Any]):
    """A dhaga that a timer may start. ``_to_start`` is the timer's entry while the timer is armed, else None."""

    __slots__ = ()

    _to_start: Entry | None

    def _start_in(self, seconds: float) -> None:
        """Arm the timer that starts this dhaga after ``seconds`` seconds."""
        self._to_start = self.scheduler.expire_after(seconds, self)

    def _cancel_start(self) -> None:
        """Cancel the timer; no-op if no timer is armed."""
        entry, self._to_start = self._to_start, None
        if entry is not None:
            self.scheduler.timers.discard(entry)

    def _start_now(self) -> None:
        """Start this dhaga. From: the timer."""
        raise NotImplementedError

    def _expire(self) -> None:
        """Start this dhaga if its start timer is armed, else time out its park. From: the timers, on the hub."""
        if self._to_start is None:
            super()._expire()
        else:
            self._start_now()
