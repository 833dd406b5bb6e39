"""The report of a failure: what failed, how to replay it, and the events that may matter, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._schedule.events import folded
from .._schedule.members import CLOCK
from .._schedule.switches import switches_from
from .cause import cause_of
from .side_by_side import side_by_side

if TYPE_CHECKING:
    from .._schedule.run import Failure, Run
    from .._search.outcome import Outcome
    from .world import Simulation

SHOWN = 20
"""Faults that a report shows; and events, with loops shown once."""

LAST = 8
"""The last events, which are always shown. The others are around what may be the cause, the latest first."""

DECISIVE = re.compile(
    "has timed out|is preempted|stands still|is paused|kills|pauses|slows|leaves|keeps|loses|stalls|breaks|resets"
    "|partitions|sets the"
)
"""Beginnings of events that the seed or a fault has brought: the cause may be among them."""


def report_of(simulation: Simulation, failure: Failure) -> str:
    """Return the report of a failed run."""
    run = simulation.run
    first = str(failure.error).partition("\n")[0]
    said = f"{failure.kind}: {first}" if first else failure.kind
    lines = [
        f"the simulation of seed {simulation.seed} failed in {failure.member.name}: {said}",
        f"  strategy {simulation.strategy}, preempted at {simulation.preempt or 'no points'}",
        f"  {run.log.count:,} events in {run.clock.now - run.began_at:g} s of virtual time, hash {simulation.hash}",
        *faults_of(run),
        "  the events, with the seconds of the virtual clock:",
        *events_of(run),
    ]
    return "\n".join(lines)


def events_of(run: Run) -> list[str]:
    """Return the lines about the last events, and about those around what may be the cause; … stands for others."""
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
    """Return the report of an outcome: its cause first, and the lines around its switches in the end."""
    lines = [(member, file, number) for member, file, number in outcome.lines]
    beside = side_by_side(lines, outcome.names, members_of(outcome.switches))
    cause = cause_of(outcome)
    first = f"{cause}\n\n" if cause else ""
    return first + outcome.report.rstrip() + (f"\n\nthe lines around the switches:\n\n{beside}" if beside else "")


def members_of(switches: str) -> set[int]:
    """Return the numbers of the members that switches name."""
    numbers = {number for switch in switches_from(switches) for number in (switch.number, switch.following)}
    return numbers - {CLOCK}
