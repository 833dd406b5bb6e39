"""``check_determinism``: a check that a seed gives the same run twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from .._base.errors import NotDeterministic
from .._schedule.events import Event
from .._schedule.members import Member, Members
from .._world.world import check_seed
from .outcome import Order, Outcome, Program, Settings
from .search import run_one

BEFORE = 5
"""The number of events that are shown before the first event that differs."""


def check_determinism(program: Program, seed: int = 0, settings: Settings | None = None) -> str:
    """Run a seed twice, in two processes, and compare the runs. Returns: the hash of the events.

    Raises: NotDeterministic, with the first event that differs; TypeError, ValueError.
    """
    check_seed(seed)
    settings = settings or Settings()
    first, second = (run_one(program, settings, Order(seed, keep_log=True)) for _ in range(2))
    if first.hash != second.hash or first.kind != second.kind:
        raise NotDeterministic(difference(first, second))
    return first.hash


def difference(first: Outcome, second: Outcome) -> str:
    """Return the description of the first difference between two runs."""
    pairs = list(zip_longest(first.log, second.log))
    place = next((index for index, (one, other) in enumerate(pairs) if one != other), len(pairs))
    lines = [f"two runs of seed {first.seed} differ at event {place + 1}; up to there both did:"]
    lines += [f"  {words(first, event)}" for event in first.log[max(0, place - BEFORE) : place]]
    for name, run in (("the first", first), ("the second", second)):
        event = run.log[place] if place < len(run.log) else None
        did = words(run, event).strip() if event else f"had ended: {run.kind or 'it passed'}"
        lines.append(f"then {name} run: {did}")
    lines.append("look for what neither clock, draw nor schedule decides: sets of objects, ids, files, C extensions")
    return "\n".join(lines)


def words(run: Outcome, event: Sequence[object]) -> str:
    members = Members()
    members.all = [Member(number, name) for number, name in enumerate(run.names)]
    return Event(*event).words(members, run.log[0][0])  # type: ignore[arg-type]
