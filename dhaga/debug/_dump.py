"""The dump: a snapshot of all dhagas as text, for people, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime

from .._kernel.stacks import Frame, Stack
from .._kernel.wait.wait_graph import cycle_text
from ._snapshot import LOOK_SECONDS, DhagaView, SchedulerView, Snapshot, snapshot


def dump(patience: float = LOOK_SECONDS) -> str:
    """Return a text with each dhaga's wait, its duration, the holders of its target, and the dhaga's stack.

    Parks: until the schedulers of other OS threads have answered, ``patience`` seconds at most (``event.wait``).
    From: a dhaga, main code, any OS thread. As values: ``snapshot()``; with spawn sites: ``record_origins()``.
    """
    return text_of(snapshot(patience))


def text_of(snapshot: Snapshot) -> str:
    """Format a snapshot as text."""
    moment = datetime.fromtimestamp(snapshot.time).isoformat(" ", "milliseconds")
    lines = [f"process {snapshot.pid} at {moment}"]
    for circle in snapshot.cycles:
        lines.append(f"deadlock: {cycle_text(circle)}")
    for scheduler in snapshot.schedulers:
        lines += ["", *_scheduler_lines(scheduler)]
    if snapshot.threads:
        lines += ["", "OS threads that wait for one of Dhaga's objects"]
        for view in snapshot.threads:
            lines += lines_of(view)
    return joined(lines)


def joined(lines: Iterable[str]) -> str:
    """Join lines into text; line ends and other controls within a line are escaped, so that no line can be forged."""
    return "\n".join(map(one_line, lines))


def one_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def json_of(snapshot: Snapshot) -> str:
    """Format a snapshot as JSON; a stack is a list of [file, line, function]."""
    return json.dumps(asdict(snapshot))


def _scheduler_lines(view: SchedulerView) -> Iterator[str]:
    state = "busy, it did not answer" if view.held else "asleep" if view.asleep else "awake"
    counted = sum(each.kind == "dhaga" for each in view.dhagas)
    yield f"scheduler {view.name} ({view.life}), {state}, {counted} dhagas, {view.runnable} runnable"
    if view.stack:
        yield "  its OS thread is at"
        yield from _stack_lines(view.stack)
    for each in view.dhagas:
        yield from lines_of(each)


def lines_of(view: DhagaView) -> Iterator[str]:
    """Format one view, its stack, and its spawn site if recorded; see ``joined``."""
    words = [f"  {view.name} {view.state}"]
    if view.reason is not None:
        since = "" if view.seconds is None else f" for {duration(view.seconds)}"
        words.append(f"waits{since}: {view.reason}{f' on {view.waits_on}' if view.waits_on else ''}")
    if view.held_by:
        words.append(f"held by {', '.join(view.held_by)}")
    if view.scopes:
        words.append(f"in {' > '.join(view.scopes)}")
    if view.cancels:
        words.append(f"pending: {', '.join(view.cancels)}")
    yield ", ".join(words)
    yield from _stack_lines(view.stack)
    if view.spawned:
        yield "    spawned at"
        yield from _stack_lines(view.spawned)


def _stack_lines(stack: Stack) -> Iterator[str]:
    for frame in stack:
        yield f"    {frame}"
        if source := Frame(*frame).source:
            yield f"      {source}"


def duration(seconds: float) -> str:
    """Format seconds for people: 12 ms, 3.4 s, 5 min, 2.0 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
