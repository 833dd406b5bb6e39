"""The report of a failure: what failed, how to replay it, and the last events in words."""

from __future__ import annotations

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
"""The last events that a report shows, with loops shown once."""


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
        "  the last events, with the seconds of the virtual clock:",
    ]
    shown = folded(run.log.kept)[-SHOWN:]
    lines += [f"  {event.words(run.members, run.began_at, times)}" for event, times in shown]
    return "\n".join(lines)


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
