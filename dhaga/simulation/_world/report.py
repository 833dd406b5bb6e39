"""The report of a failure: the error, the seed and settings of the run, its faults, and the events that may matter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._schedule.events import folded
from .._schedule.members import CLOCK
from .._schedule.switches import switches_from
from .race_cause import BOTH, NEARBY, cause_of
from .side_by_side import side_by_side
from .touches import last_touches
from .values import values_of

if TYPE_CHECKING:
    from .._schedule.run import Failure, Run
    from .._search.outcome import Outcome
    from .world import Simulation

SHOWN = 20
"""The largest number of faults, and of events, that a report shows. Of a loop, only one turn is shown and counted."""

LAST = 8
"""The number of most recent events that are always shown. Events around possible causes are added, then more last
events.
"""

DECISIVE = re.compile(
    "has timed out|is preempted|stands still|is paused|kills|pauses|slows|leaves|keeps|loses|stalls|breaks|resets"
    "|partitions|sets the"
)
"""The beginnings of events that the seed or a fault has caused. One of these events may have caused the failure."""


LOST = re.compile(r"leaves \d+ unsynced writes of (\S+):")
"""The pattern of events in which a file loses data. The next event that names the file is also shown."""


def report_of(simulation: Simulation, failure: Failure) -> str:
    """Return the report of a failed run."""
    run = simulation.run
    try:
        first = str(failure.error).partition("\n")[0]
    except Exception:  # as in a traceback, an error of __str__ does not hide the error itself
        first = "<exception str() failed>"
    said = f"{failure.kind}: {first}" if first else failure.kind
    lines = [
        f"the simulation of seed {simulation.seed} failed in {failure.member.name}: {said}",
        f"  strategy {simulation.strategy}, preempted at {simulation.preempt or 'no points'}",
        f"  {run.log.count:,} events in {run.clock.now - run.began_at:g} s of virtual time, hash {simulation.hash}",
        *values_lines(failure.error),
        *faults_of(run),
        "  the events, with the seconds of the virtual clock:",
        *events_of(run),
    ]
    return "\n".join(lines)


def values_lines(error: BaseException) -> list[str]:
    """Return a list with a line about the values in the failed statement; empty without values."""
    values = values_of(error)
    return [f"  where {', '.join(values)}"] if values else []


def events_of(run: Run) -> list[str]:
    """Return the lines about the last events and the events around possible causes. "…" replaces other events."""
    events = folded(run.log.kept)
    chosen = chosen_of([event.what for event, _ in events])
    lines = []
    for index, (event, times) in enumerate(events):
        if index in chosen:
            lines.append(f"  {event.words(run.members, run.began_at, times)}")
        elif index - 1 in chosen or index == 0:
            lines.append("     …")
    return lines


def chosen_of(texts: Sequence[str]) -> set[int]:
    """Return the indexes of the events that are shown."""
    count = len(texts)
    if count <= SHOWN:
        return set(range(count))
    chosen = set(range(count - LAST, count))
    for index in reversed(range(count)):
        around = {max(0, index - 1), index, min(index + 1, count - 1)}
        if DECISIVE.match(texts[index]) and len(chosen | around) <= SHOWN:
            chosen |= around
    for index, text in enumerate(texts):
        lost = LOST.match(text)
        later = (at for at in range(index + 1, count) if lost and lost[1] in texts[at])
        if lost and len(chosen) < SHOWN and (first := next(later, None)) is not None:
            chosen.add(first)
    room = SHOWN - len(chosen)
    return chosen | set(range(count - LAST - room, count))


def faults_of(run: Run) -> list[str]:
    """Return the lines about the faults that happened."""
    if not run.faults:
        return []
    rest = len(run.faults) - SHOWN
    more = f", the last {SHOWN} of {len(run.faults)}" if rest > 0 else ""
    return [f"  the faults{more}:", *[f"  {each.words(run.began_at)}" for each in run.faults[-SHOWN:]]]


def failure_text(outcome: Outcome) -> str:
    """Return the report of an outcome. It begins with the cause, and ends with the lines around the switches."""
    lines = [(member, file, number) for member, file, number in outcome.lines]
    beside = side_by_side(lines, outcome.names, members_of(outcome.switches))
    cause = cause_of(outcome)
    named = f"\n{BOTH} " in cause or f"\n{NEARBY} " in cause
    touches = "" if named else last_touches(outcome)
    first = "".join(f"{text}\n\n" for text in (cause, touches) if text)
    return first + outcome.report.rstrip() + (f"\n\nthe lines around the switches:\n\n{beside}" if beside else "")


def members_of(switches: str) -> set[int]:
    """Return the numbers of the members in a text of switches, without the clock."""
    numbers = {number for switch in switches_from(switches) for number in (switch.number, switch.following)}
    return numbers - {CLOCK}
