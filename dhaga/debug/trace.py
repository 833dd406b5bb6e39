"""The trace: who ran when, who waited for what, who woke whom, in the form that Perfetto opens.

While it is on, greenlet calls back at each switch, and each wake is noted; what is noted is a tuple in a ring, and the
slices are made of them in the end. While it is off nothing is called.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter_ns
from typing import IO, Any

import greenlet

from dhaga.kernel import originals
from dhaga.kernel.waiter import Waiter
from dhaga.kernel.waiting import here

from .activities import Activity
from .observers import hubs, leave_all, leave_wakes, observe_all, observe_wakes

MOST = 1_000_000
"""Events that are kept, the last ones: some 100 bytes each."""

Event = dict[str, object]
Note = tuple[int, Any, Any, str | None]
"""(ns, origin, target, reason), or of a wake (ns, waker, woken, None)"""


class Trace(Activity):
    """A trace under way; from ``trace()``."""

    def __init__(self, path: str | os.PathLike[str] | None, most: int) -> None:
        """Raises: OSError if there can be no such file; better now than in the end."""
        self.path = None if path is None else Path(path)
        if self.path is not None:
            self.path.open("w").close()
        self.pid = os.getpid()
        self.notes: deque[Note] = deque(maxlen=most)
        self.began = perf_counter_ns()
        self.note_switch = self.noting_switches()
        self.note_wake = self.noting_wakes()
        self.over = False

    def start(self) -> None:
        """Have all schedulers, those to come, too, call back from now on, each in its thread."""
        observe_wakes(self.note_wake)
        observe_all(self.note_switch)

    def stop(self) -> None:
        """Note nothing any more, and write the file, if a path was given; in a forked child leave it to the parent."""
        if self.over or self.pid != os.getpid():
            return
        self.over = True
        leave_wakes(self.note_wake)
        leave_all(self.note_switch)
        if self.path is not None:
            with self.path.open("w") as file:
                self.write(file)

    def noting_switches(self) -> Callable[[str, tuple[Any, Any]], object]:
        note, now = self.notes.append, perf_counter_ns

        def switched(event: str, between: tuple[Any, Any]) -> None:
            origin, target = between
            try:
                parked = origin.parked
                reason = parked[0] if parked else ""
            except AttributeError:
                reason = reason_of_main(origin)
            except IndexError:  # just now woken by another thread
                reason = ""
            note((now(), origin, target, reason))

        return switched

    def noting_wakes(self) -> Callable[[Waiter], object]:
        note, now, current = self.notes.append, perf_counter_ns, greenlet.getcurrent

        def woken(waiter: Waiter) -> None:
            waker: Any = current()
            try:
                waker.name  # noqa: B018
            except AttributeError:  # of a plain thread: it may have ended when the trace does
                waker.name = name_of_thread()
            note((now(), waker, greenlet_of(waiter), None))

        return woken

    def complete(self) -> int:
        """Return since when nothing is missing."""
        return self.notes[0][0] if len(self.notes) == self.notes.maxlen else self.began

    def write(self, file: IO[str]) -> None:
        """Write what was noted as Chrome's trace events, in JSON."""
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        for number, event in enumerate(Slices(list(self.notes), self.began, self.complete()).events()):
            file.write((",\n" if number else "") + json.dumps(event))
        file.write("\n]}\n")


def name_of_thread() -> str:
    """Return the name of the OS thread, without making an object for a foreign one."""
    ident = originals.get_ident()
    thread = threading._active.get(ident)  # type: ignore[attr-defined]
    return thread.name if thread is not None else f"thread {ident}"


def reason_of_main(origin: Any) -> str:
    """Return what main code waits for, if it is that which is left; empty if it is the hub."""
    main = here.main
    return "" if main is None or main.greenlet is not origin else "".join(main.parked[:1])


def greenlet_of(waiter: Any) -> Any:
    """Return what is switched to for a waiter: a dhaga itself, the greenlet of main code."""
    return getattr(waiter, "greenlet", waiter)


LOOP = "event loop"
"""Name of a hub's slices: it also sleeps there."""

WAKING = 1000
"""Nanoseconds of the slice in which somebody wakes who has no slices of his own; an arrow is to begin in one."""


class Slices:
    """Slices of running and waiting, and arrows from wakers to woken, out of the notes."""

    def __init__(self, notes: list[Note], began: int, complete: int) -> None:
        """``began``: the moment 0; ``complete``: since when none of the notes is missing."""
        self.notes = notes
        self.began = began
        self.complete = complete
        self.pid = os.getpid()
        self.tracks: dict[int, int] = {}  # of a greenlet, by its id, which stays its own: the notes refer to it
        self.switched = {id(who) for note in notes if note[3] is not None for who in note[1:3]}
        self.loops: set[int] = set()  # tracks of hubs
        self.runs: dict[int, int] = {}  # track -> since when it runs
        self.parks: dict[int, tuple[int, str]] = {}  # track -> since when it waits, and for what
        self.wakes: dict[int, tuple[int, int]] = {}  # track -> when it was woken, and by which arrow

    def events(self) -> Iterator[Event]:
        """Yield Chrome's trace events, in the order of their ends."""
        yield self.event("M", 0, self.began, name="process_name", args={"name": f"process {self.pid}"})
        for arrow, (at, one, other, reason) in enumerate(self.notes):
            yield from self.name(one)
            yield from self.name(other)
            here, there = self.tracks[id(one)], self.tracks[id(other)]
            if reason is not None:
                yield from self.stop(here, at, reason)
                yield from self.go_on(there, at)
                continue
            self.wakes[there] = at, arrow
            if id(one) not in self.switched:
                yield self.running(here, at, at + WAKING)
            yield self.event("s", here, at, name="wake", cat="wake", id=arrow)
        yield from self.finish(perf_counter_ns())

    def stop(self, track: int, at: int, reason: str) -> Iterator[Event]:
        """End a slice of running; the track waits, or without a reason is runnable."""
        yield self.running(track, self.runs.pop(track, self.complete), at)
        self.parks[track] = at, reason

    def go_on(self, track: int, at: int) -> Iterator[Event]:
        """End a slice of waiting, at the wake, and begin one of running; an arrow comes from the waker."""
        since, reason = self.parks.pop(track, (at, ""))
        woken, arrow = self.wakes.pop(track, (at, None))
        if reason:
            yield self.slice(reason, track, since, max(since, woken))
        if arrow is not None:
            yield self.event("f", track, at, name="wake", cat="wake", id=arrow, bp="e")
        self.runs[track] = at

    def finish(self, at: int) -> Iterator[Event]:
        """End the slices that are still open."""
        for track, since in self.runs.items():
            yield self.running(track, since, at)
        for track, (since, reason) in self.parks.items():
            if reason:
                yield self.slice(reason, track, since, at)

    def name(self, who: Any) -> Iterator[Event]:
        """Name the track of somebody who is seen for the first time."""
        if id(who) not in self.tracks:
            track = self.tracks[id(who)] = len(self.tracks) + 1
            if who in hubs:
                self.loops.add(track)
            name = f"hub of {hubs[who]}" if who in hubs else getattr(who, "name", "a foreign greenlet")
            yield self.event("M", track, self.began, name="thread_name", args={"name": name})

    def running(self, track: int, since: int, until: int) -> Event:
        return self.slice(LOOP if track in self.loops else "running", track, since, until)

    def slice(self, name: str, track: int, since: int, until: int) -> Event:
        return self.event("X", track, since, name=name, dur=(until - since) / 1000)

    def event(self, kind: str, track: int, at: int, **more: object) -> Event:
        return {"ph": kind, "pid": self.pid, "tid": track, "ts": (at - self.began) / 1000, **more}


def trace(path: str | os.PathLike[str] | None = None, most: int = MOST) -> Trace:
    """Note every switch and wake from now on; ``stop()``, or the end of a ``with`` block, writes them to ``path``.

    Open the file in https://ui.perfetto.dev or in the page of ``serve()``: a track for each dhaga. ``most``: how many
    events are kept. A switch costs 0.5 to 0.7 µs more meanwhile. Parks: never. From: any thread.
    Raises: OSError if there can be no such file.
    """
    new = Trace(path, most)
    new.start()
    return new
