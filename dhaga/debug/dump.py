"""The dump: everybody of this process in text, for people, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime

from .hangs import words_of
from .stacks import Frame, Stack
from .views import PATIENCE, DhagaView, SchedulerView, Snapshot, snapshot


def dump(patience: float = PATIENCE) -> str:
    """Return in text who waits for what, since when, who holds that, and where each is in its code.

    Parks: until the schedulers of other OS threads have looked, for ``patience`` seconds at most (``event.wait``).
    From: a dhaga, main code, any OS thread. As values: ``snapshot()``; where dhagas were spawned: ``record_origins()``.
    """
    return text_of(snapshot(patience))


def text_of(snapshot: Snapshot) -> str:
    """Lay out a snapshot."""
    moment = datetime.fromtimestamp(snapshot.time).isoformat(" ", "milliseconds")
    lines = [f"process {snapshot.pid} at {moment}"]
    for circle in snapshot.circles:
        lines.append(f"deadlock: {words_of(circle)}")
    for scheduler in snapshot.schedulers:
        lines += ["", *_scheduler(scheduler)]
    if snapshot.threads:
        lines += ["", "OS threads that wait for something of Dhaga's"]
        for view in snapshot.threads:
            lines += lines_of(view)
    return "\n".join(lines)


def json_of(snapshot: Snapshot) -> str:
    """Write a snapshot as JSON, a stack as a list of [file, line, function]."""
    return json.dumps(asdict(snapshot))


def _scheduler(view: SchedulerView) -> Iterator[str]:
    state = "held by the one that runs" if view.held else "asleep" if view.asleep else "awake"
    counted = sum(each.kind == "dhaga" for each in view.dhagas)
    yield f"scheduler {view.name} ({view.life}), {state}, {counted} dhagas, {view.runnable} runnable"
    if view.stack:
        yield "  its OS thread is at"
        yield from _stack(view.stack)
    for each in view.dhagas:
        yield from lines_of(each)


def lines_of(view: DhagaView) -> Iterator[str]:
    """Lay out a view of one."""
    words = [f"  {view.name} {view.state}"]
    if view.reason is not None:
        since = "" if view.seconds is None else f" for {duration(view.seconds)}"
        words.append(f"waits{since}: {view.reason}{f' on {view.waits_on}' if view.waits_on else ''}")
    if view.held_by:
        words.append(f"held by {', '.join(view.held_by)}")
    if view.scopes:
        words.append(f"in {' > '.join(view.scopes)}")
    if view.cancels:
        words.append(f"not raised yet: {', '.join(view.cancels)}")
    yield ", ".join(words)
    yield from _stack(view.stack)
    if view.spawned:
        yield "    spawned at"
        yield from _stack(view.spawned)


def _stack(stack: Stack) -> Iterator[str]:
    for frame in stack:
        yield f"    {frame}"
        if source := Frame(*frame).source:
            yield f"      {source}"


def duration(seconds: float) -> str:
    """Write seconds as people read them: 12 ms, 3.4 s, 5 min, 2.0 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
