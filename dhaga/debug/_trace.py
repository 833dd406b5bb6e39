"""The trace: the runs and waits of each dhaga, and the wakes between dhagas, in Chrome's trace format (Perfetto).

While a ``Trace`` is on, greenlet calls it at each switch, and the kernel calls it at each wake. For each event, the
trace appends a tuple to a ring of the last ``most`` events, in the thread of the event. ``deque.append`` is atomic, so
no lock is needed. ``SliceBuilder`` converts the tuples to slices and arrows only when the trace is written, because the
conversion costs 5 µs for each event. ``FlightRecorder`` keeps a small trace on while clients ask the inspector for the
last seconds. Without a trace, no switch or wake is slowed. If the ring has overflowed, the trace begins at the ring's
first event (``complete_since``), and so do slices that began earlier.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any

import greenlet

from .._kernel import originals
from .._kernel.faces.arguments import check_count
from .._kernel.originals import perf_counter_ns
from .._kernel.run.microthread import Dhaga
from .._kernel.wait.current import this_thread
from .._kernel.wait.waiter import Waiter
from ._instrumentation import (
    StopHandle,
    hubs,
    observe_all,
    preemptions,
    unobserve_all,
    wakes,
)
from ._on_demand import OnDemand

MAX_EVENTS = 1_000_000
"""Default number of the last events that a trace keeps. Each event takes about 100 bytes."""

RECENT_EVENTS = 20_000
"""Number of events that the flight recorder keeps (2 MB, written in 0.1 s). They cover 0.1 s at 200,000 events per
second.
"""

Event = dict[str, object]
Record = tuple[int, Any, Any, str | None]
"""A switch: (ns, origin, target, reason of origin's park or ""). A wake: (ns, waker, woken, None).

A preemption: (ns, origin, None, place). ``place`` is the source line at which the turn of ``origin`` has ended. The
record of the switch from ``origin`` follows.
"""


def trace(path: str | os.PathLike[str] | None = None, most: int = MAX_EVENTS) -> Trace:
    """Record every switch and wake from now on. ``stop()`` or the end of a ``with`` block writes a file to ``path``.

    Open the file in https://ui.perfetto.dev or in the page of ``serve()``; each dhaga has a track. ``most``: maximum
    number of events in the file. A switch costs 0.5 to 0.7 µs more while the trace is on.
    Parks: never. From: any thread. Raises: OSError if the file cannot be created; TypeError, ValueError.
    """
    new = Trace(path, most)
    new._start()
    return new


class Trace(StopHandle):
    """A running trace, which ``trace()`` starts."""

    def __init__(self, path: str | os.PathLike[str] | None, most: int) -> None:
        """Prepare a trace and create its file. Raises: OSError if the file cannot be created; TypeError, ValueError."""
        check_count("most", most)
        # Absolute, because the program may change its working directory before the end.
        self._path = None if path is None else Path(path).absolute()
        if self._path is not None:
            self._path.open("w").close()
        self._pid = os.getpid()
        self._records: deque[Record] = deque(maxlen=most)
        self._began = perf_counter_ns()
        self._on_switch = self._switch_observer()
        self._on_wake = self._wake_observer()
        self._stopped = False

    def _start(self) -> None:
        """Start to record all schedulers, including later ones. The OS thread of an event records the event."""
        wakes.add(self._on_wake)
        preemptions.add(self._on_preemption)
        observe_all(self._on_switch)

    def stop(self) -> None:
        """Stop recording, and write the file if a path was given. In a forked child, do nothing."""
        if self._stopped or self._pid != os.getpid():
            return
        self._stopped = True
        wakes.remove(self._on_wake)
        preemptions.remove(self._on_preemption)
        unobserve_all(self._on_switch)
        if self._path is not None:
            with self._path.open("w") as file:
                self._write(file)

    def _switch_observer(self) -> Callable[[str, tuple[Any, Any]], object]:
        record, now = self._records.append, perf_counter_ns

        def switched(event: str, between: tuple[Any, Any]) -> None:
            origin, target = between
            try:
                reason = origin.park_reason if origin.parked else ""
            except AttributeError:
                reason = reason_of_main(origin)
            record((now(), origin, target, reason))

        return switched

    def _wake_observer(self) -> Callable[[Waiter], object]:
        record, now, current = self._records.append, perf_counter_ns, greenlet.getcurrent

        def woken(waiter: Waiter) -> None:
            waker: Any = current()
            try:
                waker.name  # noqa: B018
            except AttributeError:  # a plain thread, which may end before the trace is written
                waker.name = originals.thread_name(originals.get_ident())
            record((now(), waker, greenlet_of(waiter), None))

        return woken

    def _on_preemption(self, waiter: Waiter, place: str) -> None:
        self._records.append((perf_counter_ns(), greenlet_of(waiter), None, place))

    def _complete_since(self) -> int:
        """Return the time, in ns, from which no event is missing."""
        return self._records[0][0] if len(self._records) == self._records.maxlen else self._began

    def _write(self, file: IO[str]) -> None:
        """Write the records as Chrome trace events, in JSON."""
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        for number, event in enumerate(SliceBuilder(list(self._records), self._began, self._complete_since()).events()):
            file.write((",\n" if number else "") + json.dumps(event))
        file.write("\n]}\n")


def reason_of_main(origin: Any) -> str:
    """Return the reason of main code's park if ``origin`` is main code; return an empty string for the hub."""
    main = this_thread.main
    return "" if main is None or main.own_greenlet is not origin else main.park_reason if main.parked else ""


def greenlet_of(waiter: Any) -> Any:
    """Return the greenlet of a waiter: the dhaga itself, or main code's greenlet."""
    return getattr(waiter, "own_greenlet", waiter)


# ---- Chrome trace events

PREEMPTED_AT = "preempted_at"
"""Key in the ``args`` of a slice of running that preemption ended. The value is the source line."""

LOOP = "event loop"
"""Name of a hub's slices of running, which include the hub's sleep."""

WAKE_NS = 1000
"""Length, in ns, of an artificial slice for a waker without a slice. An arrow must begin in a slice."""


class SliceBuilder:
    """Builds slices of running and waiting, and arrows from wakers to woken waiters, from the records of a trace.

    Each greenlet has a track with at most one open slice, of running or of waiting. A switch ends the running slice of
    its origin and the waiting slice of its target. A wake only marks the end of the wait, because the waiter runs
    later. A preemption adds its place to the slice that the next switch ends.
    """

    def __init__(self, records: list[Record], began: int, complete_since: int) -> None:
        """Set time 0 of the events, and the time since which no record is missing. Both times are in ns."""
        self.records = records
        self.began = began
        self.complete_since = complete_since
        self.pid = os.getpid()
        self.tracks: dict[int, int] = {}  # keyed by the id of the greenlet, which the records keep alive
        self.switched = {id(each) for record in records if record[3] is not None for each in record[1:3]}
        self.loops: set[int] = set()  # tracks of hubs
        self.runs: dict[int, int] = {}  # track -> start of its run
        self.preempted: dict[int, str] = {}  # track -> line at which preemption ended its turn
        self.parks: dict[int, tuple[int, str]] = {}  # track -> start of its park, and the reason
        self.wakes: dict[int, tuple[int, int]] = {}  # track -> time of its wake, and the arrow's number

    def events(self) -> Iterator[Event]:
        """Yield Chrome trace events. Each slice is yielded at its end."""
        yield self.event("M", 0, self.began, name="process_name", args={"name": f"process {self.pid}"})
        for arrow, (at, origin, target, reason) in enumerate(self.records):
            yield from self.name_track(origin)
            if target is None:
                self.preempted[self.tracks[id(origin)]] = reason or ""
                continue
            yield from self.name_track(target)
            origin_track, target_track = self.tracks[id(origin)], self.tracks[id(target)]
            if reason is not None:
                yield from self.end_run(origin_track, at, reason)
                yield from self.begin_run(target_track, at)
                continue
            self.wakes[target_track] = at, arrow
            if id(origin) not in self.switched:
                yield self.running(origin_track, at, at + WAKE_NS)
            yield self.event("s", origin_track, at, name="wake", cat="wake", id=arrow)
        yield from self.finish(perf_counter_ns())

    def end_run(self, track: int, at: int, reason: str) -> Iterator[Event]:
        """End a slice of running. The track then waits for ``reason``; with an empty reason, its dhaga is runnable."""
        run = self.running(track, self.runs.pop(track, self.complete_since), at)
        if track in self.preempted:
            run["args"] = {PREEMPTED_AT: self.preempted.pop(track)}
        yield run
        self.parks[track] = at, reason

    def begin_run(self, track: int, at: int) -> Iterator[Event]:
        """End a slice of waiting at its wake, with an arrow from the waker, and begin a slice of running."""
        since, reason = self.parks.pop(track, (at, ""))
        woken, arrow = self.wakes.pop(track, (at, None))
        if reason:
            yield self.slice(reason, track, since, max(since, woken))
        if arrow is not None:
            yield self.event("f", track, at, name="wake", cat="wake", id=arrow, bp="e")
        self.runs[track] = at

    def finish(self, at: int) -> Iterator[Event]:
        """End all open slices at a given time."""
        for track, since in self.runs.items():
            yield self.running(track, since, at)
        for track, (since, reason) in self.parks.items():
            if reason:
                yield self.slice(reason, track, since, at)

    def name_track(self, greenlet: Any) -> Iterator[Event]:
        """Name the track of a greenlet at its first event."""
        if id(greenlet) not in self.tracks:
            track = self.tracks[id(greenlet)] = len(self.tracks) + 1
            if greenlet in hubs:
                self.loops.add(track)
            name = f"hub of {hubs[greenlet]}" if greenlet in hubs else getattr(greenlet, "name", "a foreign greenlet")
            ident = {"ident": greenlet.ident} if isinstance(greenlet, Dhaga) else {}
            yield self.event("M", track, self.began, name="thread_name", args={"name": name, **ident})

    def running(self, track: int, since: int, until: int) -> Event:
        return self.slice(LOOP if track in self.loops else "running", track, since, until)

    def slice(self, name: str, track: int, since: int, until: int) -> Event:
        return self.event("X", track, since, name=name, dur=(until - since) / 1000)

    def event(self, kind: str, track: int, at: int, **more: object) -> Event:
        return {"ph": kind, "pid": self.pid, "tid": track, "ts": (at - self.began) / 1000, **more}


# ---- the flight recorder


class FlightRecorder:
    """A trace of the last seconds, which is on only while clients query it."""

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.probe = OnDemand("trace", self.stop)

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """Return the Chrome trace events of the last ``seconds`` seconds. Times are µs since the period's beginning.

        The first query switches the trace on, and therefore returns hardly any events. From: any OS thread. Raises:
        ProbeUnavailable.
        """
        with self.probe:
            trace = self.running_trace()
            complete_since, records = trace._complete_since(), list(trace._records)
        began = perf_counter_ns() - int(seconds * 1e9)
        recent = list(dropwhile(lambda record: record[0] < began, records))
        return list(SliceBuilder(recent, began, max(began, complete_since)).events())

    def running_trace(self) -> Trace:
        """Return the running trace, or start a new trace."""
        if self.trace is None:
            self.trace = Trace(None, RECENT_EVENTS)
            self.trace._start()
        return self.trace

    def stop(self) -> None:
        """Switch the trace off."""
        if self.trace is not None:
            self.trace.stop()
            self.trace = None
