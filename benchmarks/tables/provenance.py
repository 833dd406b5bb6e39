"""The machines on which outcomes were measured."""

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.tables.outcome import Outcome

SHARED = ("processor", "cpus", "system", "python", "python built with profile", "versions")
"""Keys of the values that are the same for all measurements on a machine."""


def text(value: Any) -> str:
    """Return a setting as text."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{round(value, 3):,g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def machines(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the machines and their installed software; if outcomes differ in a value, all of its values."""
    found: dict[str, dict[str, None]] = {}
    for key, value in ((key, outcome.where[key]) for outcome in outcomes for key in SHARED if key in outcome.where):
        each = [f"{name} {number}" for name, number in value.items()] if isinstance(value, dict) else [text(value)]
        found.setdefault(key, {}).update(dict.fromkeys(each))
    return {key: ", ".join(values) for key, values in found.items()}


def sentence(outcomes: Sequence[Outcome]) -> str:
    """Return a sentence about the machine and the number of rounds of outcomes."""
    found = machines(outcomes)
    profile = {"yes": "with", "no": "without"}.get(found.get("python built with profile", ""), "with and without")
    efforts = ({**each.where.get("effort", {}), **each.knobs} for each in outcomes)
    rounds = ", ".join(map(str, sorted({effort["rounds"] for effort in efforts if "rounds" in effort})))
    return (
        f"{f'Rounds: {rounds}. ' if rounds else ''}{found['python']} (built {profile} profile-guided optimization), "
        f"{found['versions']}; {found['system']}, {found['cpus']} x {found['processor']}."
    )
