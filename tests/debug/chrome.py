"""A strict reader of Chrome's trace event format: what Perfetto leaves out, or draws wrongly, is a fault here.

Source: "Trace Event Format", the document of the Chromium project, and Perfetto's ``json_trace_parser``.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

Event = dict[str, Any]
ROUNDING = 0.0015
"""µs: two floats of which each is rounded to a nanosecond."""

FIELDS = {
    "M": {"ph", "pid", "tid", "ts", "name", "args"},
    "X": {"ph", "pid", "tid", "ts", "name", "dur"},
    "s": {"ph", "pid", "tid", "ts", "name", "cat", "id"},
    "f": {"ph", "pid", "tid", "ts", "name", "cat", "id", "bp"},
}
"""Kinds of events and what each has here: metadata, a slice, the begin and the end of an arrow."""

OPTIONAL = {"X": {"args"}}


class Fault(AssertionError):
    """What is not as the format has it."""


@dataclass
class Picture:
    """What is to be seen of a trace."""

    process: str
    tracks: dict[str, list[Event]]  # slices in order, by the names of their tracks
    arrows: list[tuple[str, str]]  # names of tracks

    def names(self, track: str) -> list[str]:
        """Return the names of a track's slices, in order."""
        return [each["name"] for each in self.tracks[track]]


def read(path: Path) -> Picture:
    """Read a file. Raises: Fault."""
    found = json.loads(path.read_text(), parse_constant=fault)
    need(set(found) == {"displayTimeUnit", "traceEvents"} and found["displayTimeUnit"] == "ns", "the outer object")
    events: list[Event] = found["traceEvents"]
    for event in events:
        check(event)
    need(len({event["pid"] for event in events}) == 1, "one process")
    return picture(events)


def need(holds: object, what: str) -> None:
    if not holds:
        raise Fault(what)


def fault(constant: str) -> None:
    raise Fault(f"{constant} is no JSON")


def check(event: Event) -> None:
    """Check one event by itself."""
    kind = event.get("ph", "")
    need(set(event) - OPTIONAL.get(kind, set()) == FIELDS.get(kind), f"fields: {event}")
    need(all(type(event[each]) is int for each in ("pid", "tid")), f"numbers: {event}")
    need(isinstance(event["name"], str) and event["name"], f"a name: {event}")
    need(type(event["ts"]) is float and event["ts"] >= 0, f"a time: {event}")
    need(event.get("dur", 0.0) >= 0, f"a duration: {event}")
    need(event.get("bp", "e") == "e", f"an arrow's end is in the slice that begins there: {event}")


def picture(events: list[Event]) -> Picture:
    names = {each["tid"]: each["args"]["name"] for each in events if each["name"] == "thread_name"}
    (process,) = [each["args"]["name"] for each in events if each["name"] == "process_name"]
    slices: dict[int, list[Event]] = defaultdict(list)
    for each in events:
        if each["ph"] == "X":
            slices[each["tid"]].append(each)
    for track in slices.values():
        track.sort(key=lambda each: (each["ts"], each["ts"] + each["dur"]))
        for one, following in pairwise(track):
            need(one["ts"] + one["dur"] <= following["ts"] + ROUNDING, f"they overlap: {one} {following}")
    need(slices.keys() <= names.keys(), "each track has a name")
    tracks = {f"{names[tid]}": track for tid, track in slices.items()}
    return Picture(process, tracks, arrows(events, slices, names))


def arrows(events: list[Event], slices: dict[int, list[Event]], names: dict[int, str]) -> list[tuple[str, str]]:
    """Return the arrows: each begins and ends within a slice, and no earlier than it begins."""
    ends: dict[str, dict[int, Event]] = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] in ends:
            need(event["id"] not in ends[event["ph"]], f"an arrow by that number is there already: {event}")
            ends[event["ph"]][event["id"]] = event
            need(bound(event, slices[event["tid"]]), f"it is in no slice: {event}")
    need(ends["f"].keys() <= ends["s"].keys(), "an arrow that begins nowhere")
    pairs = [(ends["s"][number], end) for number, end in ends["f"].items()]
    need(all(begin["ts"] <= end["ts"] for begin, end in pairs), "an arrow that leads back in time")
    return [(names[begin["tid"]], names[end["tid"]]) for begin, end in pairs]


def bound(event: Event, track: list[Event]) -> bool:
    """Tell whether an arrow's end is in a slice of its track."""
    place = bisect_right([each["ts"] for each in track], event["ts"] + ROUNDING)
    return any(each["ts"] + each["dur"] + ROUNDING >= event["ts"] for each in track[:place][-2:])
