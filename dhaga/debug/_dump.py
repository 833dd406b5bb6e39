"""The dump: a snapshot of all dhagas, as text for people or as JSON.

In the text, three or more dhagas with the same state, reason and stack share one description. JSON describes each dhaga
separately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Hashable, Iterable, Iterator
from datetime import datetime

from .._kernel.stacks import Frame, Stack
from .._kernel.wait.wait_graph import cycle_text
from ._row_groups import SMALLEST_GROUP, names_in_short
from ._snapshot import LOOK_SECONDS, DhagaView, SchedulerView, Snapshot, snapshot
from ._table_row import stem

MOST_NAMES = 8
"""Maximum number of names that are listed for a group of dhagas."""


def dump(patience: float = LOOK_SECONDS) -> str:
    """Return a text with each dhaga's stack and wait: the wait's reason and duration, its object, and the object's
    holders.

    Parks: until the schedulers of other OS threads have answered, at most ``patience`` seconds (``event.wait``).
    From: a dhaga, main code, any OS thread. ``snapshot()`` returns the same facts as objects. After
    ``record_origins()``, the text also contains spawn sites.
    """
    return text_of(snapshot(patience))


def text_of(snapshot: Snapshot) -> str:
    """Format a snapshot as text."""
    moment = datetime.fromtimestamp(snapshot.time).isoformat(" ", "milliseconds")
    lines = [f"process {snapshot.pid} at {moment}"]
    for circle in snapshot.cycles:
        lines.append(f"deadlock: {cycle_text(circle)}")
    deadlocked = {name for circle in snapshot.cycles for name in circle}
    for scheduler in snapshot.schedulers:
        lines += ["", *_scheduler_lines(scheduler, deadlocked)]
    if snapshot.threads:
        lines += ["", "OS threads that wait for one of Dhaga's objects", *_lines_of_all(snapshot.threads, deadlocked)]
    if snapshot.preempted:
        lines += ["", "turns were preempted at", *(f"  {place}: {count}" for place, count in snapshot.preempted)]
    return joined(lines)


def joined(lines: Iterable[str]) -> str:
    """Join lines into text. Control characters within a line are escaped, so that no name can fake another line."""
    return "\n".join(map(one_line, lines))


def one_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _scheduler_lines(view: SchedulerView, deadlocked: Container[str]) -> Iterator[str]:
    state = "busy, it did not answer" if view.held else "asleep" if view.asleep else "awake"
    counted = sum(each.kind == "dhaga" for each in view.dhagas)
    preempted = f", preemptions: {view.preemptions}" if view.preemptions else ""
    cpu = "" if view.cpu_seconds is None else f", {duration(view.cpu_seconds)} of CPU time"
    yield f"scheduler {view.name} ({view.life}), {state}, {counted} dhagas, {view.runnable} runnable{preempted}{cpu}"
    if view.stack:
        yield "  its OS thread is at"
        yield from _stack_lines(view.stack)
    yield from _lines_of_all(view.dhagas, deadlocked)


def _lines_of_all(views: Collection[DhagaView], deadlocked: Container[str]) -> Iterator[str]:
    """Yield the lines of views. Similar views are formatted once, at the place of the first view. A deadlocked view
    always has its own line.
    """
    groups: defaultdict[Hashable, list[DhagaView]] = defaultdict(list)
    for view in views:
        groups[view.ident if view.name in deadlocked else _alike(view)].append(view)
    large = {key: group for key, group in groups.items() if len(group) >= SMALLEST_GROUP}
    for view in views:
        key = view.ident if view.name in deadlocked else _alike(view)
        if key not in large:
            yield from lines_of(view)
        elif large[key][0] is view:
            yield from _lines_of_group(large[key])


def _alike(view: DhagaView) -> Hashable:
    """Return the values of a view that decide its group: views with equal values are shown together."""
    reason = view.reason and stem(view.reason)
    return view.kind, view.state, reason, view.held_by, view.scopes, view.cancels, view.stack, view.spawned


def lines_of(view: DhagaView) -> Iterator[str]:
    """Yield the lines of one view, with its stack and its recorded spawn site. Callers pass them to ``joined``."""
    return _described(view, f"{view.name} {view.state}", [view])


def _lines_of_group(views: list[DhagaView]) -> Iterator[str]:
    names = [view.name for view in views]
    first, *rest = _described(views[0], f"{len(views)} × {names_in_short(names)} {views[0].state}", views)
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    yield from [first, f"    named {', '.join(names[:MOST_NAMES])}{more}", *rest]


def _described(view: DhagaView, title: str, alike: Collection[DhagaView]) -> Iterator[str]:
    words = [f"  {title}"]
    if view.reason is not None:
        reasons, targets = {each.reason for each in alike}, {each.waits_on for each in alike}
        reason = view.reason if len(reasons) == 1 else f"{stem(view.reason)} …"
        target = view.waits_on if len(targets) == 1 else f"{len(targets)} different"
        words.append(f"waits{_since(alike)}: {reason}{f' on {target}' if target else ''}")
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


def _since(views: Iterable[DhagaView]) -> str:
    """Return how long these dhagas have waited, such as `` for 3.0 s`` or `` for 20 ms to 3.0 s``."""
    seconds = sorted(view.seconds for view in views if view.seconds is not None)
    ends = list(dict.fromkeys(map(duration, seconds[:1] + seconds[-1:])))
    return f" for {' to '.join(ends)}" if ends else ""


def _stack_lines(stack: Stack) -> Iterator[str]:
    for frame in stack:
        yield f"    {frame}"
        if source := Frame(*frame).source:
            yield f"      {source}"


def duration(seconds: float) -> str:
    """Format a number of seconds for people, such as 12 ms, 3.4 s, 5 min or 2.0 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
