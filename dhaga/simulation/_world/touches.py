"""The last lines that touch the shared names of the statement that failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._schedule.source_line import SourceLine
from .race_cause import names_of

if TYPE_CHECKING:
    from .._search.outcome import Outcome

SHOWN = 8
"""The maximum number of lines that are shown, the most recent ones."""

CONTAINERS = frozenset({"self", "cls"})
"""Names that are ignored, because nearly every line of a method touches them."""


def last_touches(outcome: Outcome) -> str:
    """Return a text with the last lines that read or write a shared name of the failed statement.

    If it is unknown which statement failed, the line that ran last counts as the failed line. Names that no line writes
    are ignored. The text is empty unless two members (threads or tasks) have run these lines.
    """
    if not outcome.lines:
        return ""
    lines = [(member, file, line) for member, file, line in outcome.lines]
    failed = lines[-1][1:] if outcome.failed_at is None else tuple(outcome.failed_at)
    earlier = lines[: max(place for place, line in enumerate(lines) if line[1:] == failed)]
    names = names_of(*failed).touched - CONTAINERS
    written = names & frozenset(name for line in set(earlier) for name in names_of(*line[1:]).written)
    touching = [line for line in earlier if names_of(*line[1:]).touched & written][-SHOWN:]
    if len({member for member, _, _ in touching}) < 2:
        return ""
    rows = [(outcome.names[member], SourceLine(file, line)) for member, file, line in touching]
    width = max(len(name) for name, _ in rows) + 2
    text = [f"  {name:{width}}{line}" for name, line in rows]
    return "\n".join([f"the last lines that touch {', '.join(sorted(written))}:", *text])
