"""The trace: the runs and waits of each dhaga, and the wakes between dhagas, in Chrome's trace format (Perfetto).

Three parts. ``Trace`` records: while it is on, greenlet calls it at each switch, and the kernel at each wake. It
appends a tuple to a ring of the last ``most`` events, in the thread of the event; ``deque.append`` is atomic, so no
lock is needed. ``SliceBuilder`` turns the tuples into slices and arrows only when the trace is written, since that
costs 5 µs an event. ``FlightRecorder`` keeps a small trace on while clients query the inspector for the last seconds.
Without a trace, none of this is called. If the ring has overflowed, slices that began before its first event begin
there (``complete_since``).
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any

import greenlet

from .._kernel import originals
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
"""Number of the last events kept by default; each takes about 100 bytes."""

RECENT_EVENTS = 20_000
"""Events kept by the flight recorder: 2 MB, written in 0.1 s; at 100,000 switches a second they cover 0.1 s."""

Event = dict[str, object]
Record = tuple[int, Any, Any, str | None]
"""(ns, origin, target, reason of origin's park or "") for a switch; (ns, waker, woken, None) for a wake.

(ns, origin, None, place) for a preemption, before its switch: the turn of origin ends at this line.
"""


def trace(path: str | os.PathLike[str] | None = None, most: int = MAX_EVENTS) -> Trace:
    """Record every switch and wake from now on; ``stop()``, or the end of a ``with`` block, writes them to ``path``.

    Open the file in https://ui.perfetto.dev or in the page of ``serve()``: each dhaga has a track. ``most``: maximum
    number of events kept. Meanwhile a switch costs 0.5 to 0.7 µs more.
    Parks: never. From: any thread. Raises: OSError if the file cannot be created.
    """
    new = Trace(path, most)
    new._start()
    return new


class Trace(StopHandle):
    """A running trace, from ``trace()``."""

    def __init__(self, path: str | os.PathLike[str] | None, most: int) -> None:
        """Raises: OSError if the file cannot be created, now rather than at the end."""
        self._path = None if path is None else Path(path)
        if self._path is not None:
            self._path.open("w").close()
        self._pid = os.getpid()
        self._records: deque[Record] = deque(maxlen=most)
        self._began = perf_counter_ns()
        self._on_switch = self._switch_observer()
        self._on_wake = self._wake_observer()
        self._stopped = False

    def _start(self) -> None:
        """Record all schedulers, including later ones; each calls back in its own thread."""
        wakes.add(self._on_wake)
        preemptions.add(self._on_preemption)
        observe_all(self._on_switch)

    def stop(self) -> None:
        """Stop recording, and write the file if a path was given; in a forked child the file is left to the parent."""
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
            except AttributeError:  # a plain thread, which may have ended before the trace is written
                waker.name = name_of_thread()
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


def name_of_thread() -> str:
    """Return the name of this OS thread; for a foreign one, without creating a ``threading`` object."""
    ident = originals.get_ident()
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return thread.name if thread is not None else f"thread {ident}"


def reason_of_main(origin: Any) -> str:
    """Return the reason of main code's park if ``origin`` is main code; empty for the hub."""
    main = this_thread.main
    return "" if main is None or main.own_greenlet is not origin else main.park_reason if main.parked else ""


def greenlet_of(waiter: Any) -> Any:
    """Return the greenlet of a waiter: the dhaga itself, or main code's greenlet."""
    return getattr(waiter, "own_greenlet", waiter)


# ---- Chrome trace events

PREEMPTED_AT = "preempted_at"
"""Key of the line in the args of a slice of running that preemption ended."""

LOOP = "event loop"
"""Name of the slices of a hub, which also sleeps in them."""

WAKE_NS = 1000
"""Length of the slice made for a waker without a slice: an arrow must begin in one."""


class SliceBuilder:
    """Builds slices of running and waiting, and arrows from wakers to woken waiters, from the records of a trace.

    Each greenlet has a track with at most one open slice, of running or of waiting. A switch ends the running slice of
    its origin and the waiting slice of its target; a wake only marks the end of the wait, because the waiter runs
    later.
    A preemption adds its place to the slice that the next switch ends.
    """

    def __init__(self, records: list[Record], began: int, complete_since: int) -> None:
        """``began``: time 0 of the events; ``complete_since``: the time from which no record is missing. Both in ns."""
        self.records = records
        self.began = began
        self.complete_since = complete_since
        self.pid = os.getpid()
        self.tracks: dict[int, int] = {}  # by the id of the greenlet, which the records keep alive
        self.switched = {id(each) for record in records if record[3] is not None for each in record[1:3]}
        self.loops: set[int] = set()  # tracks of hubs
        self.runs: dict[int, int] = {}  # track -> start of its run
        self.preempted: dict[int, str] = {}  # track -> line where its turn ended
        self.parks: dict[int, tuple[int, str]] = {}  # track -> start of its park, and the reason
        self.wakes: dict[int, tuple[int, int]] = {}  # track -> time of its wake, and the arrow's number

    def events(self) -> Iterator[Event]:
        """Yield Chrome trace events, in the order of their ends."""
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
        """End a slice of running. The track waits for ``reason``; without one it is runnable."""
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
        """End the open slices."""
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
    """A trace of the last seconds, which is on while it is queried."""

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.probe = OnDemand("trace", self.stop)

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """Return the Chrome trace events of the last ``seconds``; times are µs from their beginning.

        The first query switches the trace on, so it returns hardly any events. From: any OS thread. Raises:
        ProbeUnavailable.
        """
        with self.probe:
            trace = self.running_trace()
            complete_since, records = trace._complete_since(), list(trace._records)
        began = perf_counter_ns() - int(seconds * 1e9)
        recent = list(dropwhile(lambda record: record[0] < began, records))
        return list(SliceBuilder(recent, began, max(began, complete_since)).events())

    def running_trace(self) -> Trace:
        """Return the running trace, or a new one."""
        if self.trace is None:
            self.trace = Trace(None, RECENT_EVENTS)
            self.trace._start()
        return self.trace

    def stop(self) -> None:
        """Switch the trace off."""
        if self.trace is not None:
            self.trace.stop()
            self.trace = None
