"""Recent: the trace of the last seconds, kept only as long as somebody asks for it."""

from __future__ import annotations

from itertools import dropwhile
from time import perf_counter_ns
from typing import Any

from .interest import Interest
from .trace import Slices, Trace

MOST = 20_000
"""Notes that are kept: 2 MB, and 0.1 s to tell them; where dhagas switch 100,000 times a second, 0.1 s of them."""


class Recent:
    """A trace that runs while it is asked for."""

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.interest = Interest("trace", self.end)

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """Return Chrome's trace events of the last seconds; times are µs, and 0 is that long ago.

        The first question begins the trace, and is answered by what little there is.
        """
        with self.interest:
            trace = self.trace_of_all()
            complete, notes = trace.complete(), list(trace.notes)
        began = perf_counter_ns() - int(seconds * 1e9)
        return list(Slices(list(dropwhile(lambda note: note[0] < began, notes)), began, max(began, complete)).events())

    def trace_of_all(self) -> Trace:
        """Return the trace under way; a new one if none is."""
        if self.trace is None:
            self.trace = Trace(None, MOST)
            self.trace.start()
        return self.trace

    def end(self) -> None:
        """Note nothing any more."""
        if self.trace is not None:
            self.trace.stop()
            self.trace = None
