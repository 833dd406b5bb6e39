"""The cause of a failure: the switch without which the run passes, with the lines on both sides that do not agree."""

from __future__ import annotations

import ast
import linecache
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

BEFORE = 4
"""Lines of the stopped thread, before and after its stop, whose names are compared."""

MOST_COMPARED = 200
"""Lines after a switch that are compared with those of the nearest run."""

STRETCH = 20
"""Lines of the threads after a park that are compared."""

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
"""Methods that change their object: a line that calls one writes it."""


class Conflict(NamedTuple):
    """A switch, the lines of two threads that it orders, and the name that both touch; empty if none was found."""

    switch: Switch
    first: Line
    second: Line
    name: str
    words: tuple[str, str]


class Names(NamedTuple):
    """The shared names that a line touches: attributes and variables of more than one function; and those it writes."""

    touched: frozenset[str]
    written: frozenset[str]


def cause_of(outcome: Outcome) -> str:
    """Return the text about the cause of a small failing run; empty where its lines were not kept."""
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
        text.append(f"  both touch {found.name}")
    return "\n".join([f"the cause, the switch {found.switch}{without(outcome)}:", *text])


def of_faults(outcome: Outcome) -> str:
    """Return the cause of a failure in plain order: its faults, if any."""
    if not outcome.faults:
        return "the cause lies in no switch: the run also fails if its threads run in plain order"
    return f"the cause lies in no switch of threads, but in the faults {outcome.faults}"


def without(outcome: Outcome) -> str:
    """Describe the nearest run, which lacks this switch only."""
    if outcome.nearest is None:
        return ""
    return ", without which the run " + (f"fails by {outcome.nearest}" if outcome.nearest else "passes")


def conflict_of(outcome: Outcome) -> Conflict | None:
    """Return the first switch whose threads touch the same name, else the first one."""
    if not outcome.lines or len(outcome.lines) >= LINES_KEPT:
        return None
    found = [each for each in map(Reading(outcome).conflict, range(len(outcome.marks))) if each is not None]
    return next((each for each in found if each.name), found[0] if found else None)


class Reading:
    """Reads the lines of a run around its switches."""

    def __init__(self, outcome: Outcome) -> None:
        self.switches = switches_from(outcome.switches)
        self.marks = outcome.marks
        self.lines: Sequence[Line] = outcome.lines
        self.nearest: Sequence[Line] = outcome.nearest_lines

    def conflict(self, number: int) -> Conflict | None:
        """Return the lines that a switch orders: of the stopped thread, or of the thread that runs instead."""
        around = self.around_the_stop(number)
        if self.switches[number].preempts or (around is not None and around.name):
            return around
        return self.after_the_park(number) or self.beside_the_nearest(number) or around

    def beside_the_nearest(self, number: int) -> Conflict | None:
        """Return two lines that the nearest run has in the other order, or of which the failing one lacks the first."""
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
        """Return what a thread runs that goes before its turn, and what another one runs after it therefore."""
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
        """Return what a switch lets run between two lines of the thread that it stops."""
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
        for own in (stopped, *reversed(before), *after):
            for other in others:
                if name := clash(own, other):
                    return Conflict(switch, stopped, other, name, words)
        return Conflict(switch, stopped, others[0] if others else stopped, "", words)


def clash(one: Line, other: Line) -> str:
    """Return a name that both lines touch and one of them writes; empty without one."""
    ours, theirs = names_of(*one[1:]), names_of(*other[1:])
    both = ours.touched & theirs.touched & (ours.written | theirs.written)
    return min(both, default="")


@cache
def names_of(file: str, line: int) -> Names:
    """Return the shared names in the source of a line."""
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
    """Return the name of an object that a node changes: ``names[0] = 1``, ``names.append(1)``."""
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
    """Return the nodes of a file by their first lines; none where it cannot be read."""
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
    """Return the local variables of the function around a line that no other function sees."""
    try:
        module = compile(source_of(file), file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return frozenset()
    inside = [code for code in codes_in(module) if any(at == line for _, _, at in code.co_lines())]
    # The innermost function comes last; the module's own variables are shared.
    own = inside[-1] if inside else module
    return frozenset(own.co_varnames) - frozenset(own.co_cellvars)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)
