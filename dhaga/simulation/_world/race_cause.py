"""The cause of a failure: a switch between two threads, and the two lines that are in conflict because of the switch.

The *nearest run* is the same run without this switch.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple

from .._schedule.members import CLOCK
from .._schedule.points import LINES_KEPT
from .._schedule.source_line import SourceLine
from .._schedule.switches import Switch, switches_from
from .side_by_side import Line

if TYPE_CHECKING:
    from .._search.outcome import Outcome

DRAWN = re.compile(r" +\d+\.\d{6}  .*?(has timed out after|leaves \d+ unsynced writes|keeps \d+ of \d+ unsynced)")
"""The pattern of report lines about timeouts and losses of data. The seed has drawn their times and extents."""

DRAWN_SHOWN = 3
"""The number of most recent ``DRAWN`` lines that are shown."""

BEFORE = 4
"""The number of compared lines on each side (before and after) of a thread's stop."""

MOST_COMPARED = 200
"""The number of lines after a switch that are compared with lines of the nearest run."""

STRETCH = 20
"""The number of lines of the next thread after a park. They are compared with as many later lines of other threads."""

BOTH, NEARBY = "  both touch", "  the second line and one near the first touch"
"""Beginnings of the report line that names the shared name of a conflict."""

CHANGING = (
    "append",
    "add",
    "clear",
    "discard",
    "extend",
    "insert",
    "pop",
    "popleft",
    "put",
    "remove",
    "update",
    "write",
)
"""Methods that change their object. A call of such a method counts as a write of the object's name."""


class Conflict(NamedTuple):
    """A switch, two lines that the switch puts in another order, and a name that they touch.

    If the switch stops a thread, a line near the first line may touch the name instead. ``name`` is empty if no such
    name was found. ``words``: a text about each of the two lines.
    """

    switch: Switch
    first: Line
    second: Line
    name: str
    words: tuple[str, str]


class Names(NamedTuple):
    """The shared names in a line: attributes, and variables that several functions can use.

    ``touched``: all these names; ``written``: the names that the line writes.
    """

    touched: frozenset[str]
    written: frozenset[str]


def cause_of(outcome: Outcome) -> str:
    """Return a text about the cause of a run's failure; empty for a run with switches in which no conflict is found."""
    if not outcome.switches:
        return of_faults(outcome)
    found = conflict_of(outcome)
    if found is None:
        return ""
    names = [*outcome.names, "the clock"]
    lines = [found.first] if found.first == found.second else [found.first, found.second]
    rows = [
        (f"{names[line[0]]} {words}", SourceLine(*line[1:])) for line, words in zip(lines, found.words, strict=False)
    ]
    width = max(len(text) for text, _ in rows) + 2
    place = max(len(line.where) for _, line in rows) + 2
    text = [f"  {text:{width}}{line.where:{place}}{line.text}" for text, line in rows]
    if found.switch.following == CLOCK:
        text.insert(1, "  time passes up to the next deadline")
    if found.name:
        text.append(f"{BOTH if is_of_both(found) else NEARBY} {found.name}")
    text += drawn_in(outcome)
    return "\n".join([f"the cause, the switch {found.switch}{without(outcome)}:", *text])


def is_of_both(found: Conflict) -> bool:
    """Return whether both shown lines touch the name. If not, a line near the first one touches the name."""
    return all(found.name in names_of(*line[1:]).touched for line in (found.first, found.second))


def of_faults(outcome: Outcome) -> str:
    """Return a text about the cause of a failure without switches: the faults, or the last events drawn by the seed."""
    if outcome.faults:
        return f"the cause lies in no switch of threads, but in the faults {outcome.faults}"
    first = "the cause lies in no switch: the run also fails if its threads run in plain order"
    return "\n".join([f"{first}, by the times that the seed has drawn", *drawn_in(outcome)])


def drawn_in(outcome: Outcome) -> list[str]:
    """Return the last report lines about timeouts and losses of data. The seed has drawn their times and extents."""
    found = [line.strip() for line in outcome.report.splitlines() if DRAWN.match(line)][-DRAWN_SHOWN:]
    return ["  the seed has also drawn:", *[f"  {line}" for line in found]] if found else []


def without(outcome: Outcome) -> str:
    """Return a phrase about the nearest run: whether it passes, or how it fails."""
    if outcome.nearest is None:
        return ""
    return ", without which the run " + (f"fails by {outcome.nearest}" if outcome.nearest else "passes")


def conflict_of(outcome: Outcome) -> Conflict | None:
    """Return the first conflict that has a name, or else the first conflict.

    Returns: None if there is no conflict, or if not all lines of the run were kept.
    """
    if not outcome.lines or len(outcome.lines) >= LINES_KEPT:
        return None
    found = [each for each in map(Reading(outcome).conflict, range(len(outcome.marks))) if each is not None]
    return next((each for each in found if each.name), found[0] if found else None)


class Reading:
    """The search for conflicts in the lines around the switches of a run."""

    def __init__(self, outcome: Outcome) -> None:
        self.switches = switches_from(outcome.switches)
        self.marks = outcome.marks
        self.lines: Sequence[Line] = outcome.lines
        self.nearest: Sequence[Line] = outcome.nearest_lines

    def conflict(self, number: int) -> Conflict | None:
        """Return the conflict of the switch with this index; None if no such conflict is found."""
        around = self.around_the_stop(number)
        if self.switches[number].preempts or (around is not None and around.name):
            return around
        return self.after_the_park(number) or self.beside_the_nearest(number) or around

    def beside_the_nearest(self, number: int) -> Conflict | None:
        """Return a conflict: a line of the failing run, and a line that precedes this line only in the nearest run."""
        switch, (mark, _, _) = self.switches[number], self.marks[number]
        failing, passing = self.lines[mark:][:MOST_COMPARED], self.nearest[mark:][:MOST_COMPARED]
        for at, one in enumerate(failing):
            if one in passing:
                earlier = [each for each in passing[: passing.index(one)] if each not in failing[:at]]
                for other in earlier:
                    if other[0] != one[0] and (name := clash(one, other)):
                        return Conflict(switch, one, other, name, ("runs first", "runs first in the run that passes"))
        return None

    def after_the_park(self, number: int) -> Conflict | None:
        """Return a conflict: a line of the thread that the switch puts first, and a later line of another thread."""
        switch, (mark, _, _) = self.switches[number], self.marks[number]
        begin = next((at for at in range(mark, len(self.lines)) if self.lines[at][0] == switch.following), None)
        if begin is None:
            return None
        end = next((at for at in range(begin, len(self.lines)) if self.lines[at][0] != switch.following), None)
        own = self.lines[begin:end][:STRETCH]
        later = [each for each in self.lines[begin:] if each[0] != switch.following][:STRETCH]
        for one in own:
            for other in later:
                if name := clash(one, other):
                    return Conflict(switch, one, other, name, ("runs first", "runs later"))
        return None

    def around_the_stop(self, number: int) -> Conflict | None:
        """Return a conflict: the line at which a switch stops a thread, and a line that runs during the stop."""
        switch, (mark, file, line) = self.switches[number], self.marks[number]
        words = ("stands before" if file else "waits after", "runs meanwhile")
        me = switch.number
        before = [each for each in self.lines[:mark] if each[0] == me][-BEFORE:]
        stopped = (me, file, line) if file else (before[-1] if before else None)
        if stopped is None:
            return None
        end = next((at for at in range(mark, len(self.lines)) if self.lines[at][0] == me), len(self.lines))
        others = self.lines[mark:end]
        after = [each for each in self.lines[end:] if each[0] == me][:BEFORE]
        pairs = [(other, clash(own, other)) for own in (stopped, *reversed(before), *after) for other in others]
        clashes = [(other, name) for other, name in pairs if name]
        if clashes:
            # Lines that write are preferred, because a read by another thread does no harm to the stopped thread.
            writes = [(other, name) for other, name in clashes if name in names_of(*other[1:]).written]
            other, name = (writes or clashes)[0]
            return Conflict(switch, stopped, other, name, words)
        return Conflict(switch, stopped, others[0] if others else stopped, "", words)


def clash(one: Line, other: Line) -> str:
    """Return a name that both lines touch and at least one line writes, or an empty string."""
    ours, theirs = names_of(*one[1:]), names_of(*other[1:])
    both = ours.touched & theirs.touched & (ours.written | theirs.written)
    return min(both, default="")


@cache
def names_of(file: str, line: int) -> Names:
    """Return the shared names in the source line with this number."""
    private = private_names(file, line)
    touched, written = set(), set()
    for node in nodes_of(file).get(line, ()):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name and (isinstance(node, ast.Attribute) or name not in private):
            touched.add(name)
            if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                written.add(name)
        changed = changed_by(node)
        if changed and changed not in private:
            written.add(changed)
    return Names(frozenset(touched), frozenset(written))


def changed_by(node: ast.AST) -> str:
    """Return the name of the object that a node changes: ``names`` for ``names.append(1)``; empty for other nodes."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        owner: ast.AST = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        owner = node.func.value
    else:
        return ""
    return owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""


@cache
def source_of(file: str) -> str:
    return "".join(linecache.getlines(file))


@cache
def nodes_of(file: str) -> dict[int, list[ast.AST]]:
    """Return the syntax-tree nodes of a file by their first lines; empty if the file cannot be parsed."""
    found: dict[int, list[ast.AST]] = {}
    try:
        tree = ast.parse(source_of(file))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            found.setdefault(node.lineno, []).append(node)
    return found


@cache
def private_names(file: str, line: int) -> frozenset[str]:
    """Return the variables that only the function around a line can use."""
    try:
        module = compile(source_of(file), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return frozenset()
    inside = [code for code in codes_in(module) if any(at == line for _, _, at in code.co_lines())]
    # The innermost function comes last. A module has no private variables.
    own = inside[-1] if inside else module
    return frozenset(own.co_varnames) - frozenset(own.co_cellvars)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)
