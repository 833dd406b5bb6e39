"""Lines tagged ``atomic`` hold no place where CPython lets another thread in, except at their very end.

Without the interpreter lock each of these lines runs under a guard; the syntax trees are the same on any build.
"""

from __future__ import annotations

import ast
import dis
import pathlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest

import dhaga
from dhaga._kernel.interpreter.atomic_lines import Guarding, Loader, guarded_tree, tagged_lines
from dhaga._kernel.interpreter.requirements import FREE_THREADED

PACKAGE = pathlib.Path(dhaga.__file__).parent
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if tagged_lines(path.read_bytes())]

LETS_IN = ("RESUME", "JUMP_BACKWARD", "CALL", "PRECALL", "SEND", "YIELD", "FOR_ITER", "WITH_EXCEPT_START", "IMPORT")
"""Beginnings of the names of instructions after which another thread may have run."""

HARMLESS = (
    "PRECALL",
    "CALL",
    "CACHE",
    "NOP",
    "POP_TOP",
    "LOAD_CONST",
    "LOAD_COMMON_CONSTANT",
    "STORE_FAST",
    "RETURN_",
    "JUMP_",
    "EXTENDED_ARG",
)
"""Beginnings of the names of instructions that may follow: they touch nothing that other threads see."""


def code_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_in(const)


def instructions_by_line(source: str) -> dict[int, list[dis.Instruction]]:
    """Return the instructions of each tagged line, in order."""
    found: dict[int, list[dis.Instruction]] = {line: [] for line in tagged_lines(source.encode())}
    for code in code_in(compile(source, "<source>", "exec")):
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions else None
            if line in found:
                found[line].append(instruction)
    return found


def faults(source: str) -> dict[int, str]:
    """Return, for each tagged line that is not atomic, the instruction that comes too late."""
    found = {}
    for line, instructions in instructions_by_line(source).items():
        let_in = calls = 0
        offsets = {instruction.offset for instruction in instructions}
        for instruction in instructions:
            name = instruction.opname
            calls += name.startswith("CALL")
            loops = "JUMP_BACKWARD" in name and instruction.argval in offsets
            if loops or calls > 1 or (let_in and not name.startswith(HARMLESS)):
                found[line] = name
                break
            let_in += name.startswith(LETS_IN)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_other_thread_runs_within_an_atomic_line(path: pathlib.Path) -> None:
    source = path.read_text("utf-8")
    lines = instructions_by_line(source)
    assert lines and all(lines.values())  # each was compiled to something
    assert faults(source) == {}


def test_the_files_of_primitives_have_such_lines() -> None:
    assert {"event.py", "lock.py", "metrics.py", "queue.py", "semaphore.py", "simple_queue.py"} <= {
        path.name for path in FILES
    }


@pytest.mark.parametrize(
    "line",
    [
        "if not self._waiters_: self._flag = True; return",
        "if self.free: self.items.append(1); return",
        "former, self.queue = self.queue, None",
        "self.value += 1",
        "x = self.items.popleft()",
        "return self.items.popleft()",
    ],
)
def test_an_atomic_line_passes(line: str) -> None:
    assert faults(f"def f(self):\n    {line}  # atomic\n    return 1\n") == {}


@pytest.mark.parametrize(
    "line",
    [
        "if len(self.items) > 1: self._flag = True",
        "self.value = self.items.popleft()",
        "self.items.popleft(); self.value = 1",
        "self.items.append(self.items.popleft())",
        "while self.free: self.free = False",
        "for self.x in self.items: pass",
        "self.x = [y for y in self.items]",
    ],
)
def test_a_line_that_is_not_atomic_is_found_out(line: str) -> None:
    assert list(faults(f"def f(self):\n    {line}  # atomic\n    return 1\n")) == [2]


# ---- without the interpreter lock


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_tagged_line_is_guarded_and_no_other(path: pathlib.Path) -> None:
    source = path.read_bytes()
    guarding = Guarding(tagged_lines(source))
    tree = guarding.visit(ast.parse(source))
    assert guarding.guarded == guarding.lines
    blocks = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.With) and is_guard(node)]
    assert sorted(blocks) == sorted(guarding.lines)


def is_guard(block: ast.With) -> bool:
    return ast.unparse(block.items[0].context_expr).endswith("._guard")


@pytest.mark.skipif(not FREE_THREADED, reason="there is an interpreter lock")
def test_the_modules_of_tagged_lines_were_loaded_under_guards() -> None:
    loaded = {module.__file__: module for name, module in list(sys.modules.items()) if name.startswith("dhaga.")}
    found = [loaded[str(path)].__spec__ for path in FILES if str(path) in loaded]
    assert len(found) > 5
    assert all(spec is not None and isinstance(spec.loader, Loader) for spec in found)


class Guard:
    """A guard that writes a parenthesis when it is taken and when it is released."""

    def __init__(self, written: list[str]) -> None:
        self.written = written

    def __enter__(self) -> None:
        self.written.append("(")

    def __exit__(self, *_: object) -> None:
        self.written.append(")")


def guarded(source: str) -> Callable[..., Any]:
    """Return the function ``f`` of a module, compiled as the import hook does."""
    names: dict[str, Any] = {}
    exec(compile(guarded_tree(source.encode(), "<source>"), "<source>", "exec"), names)
    return names["f"]


def course(f: Callable[..., Any], **attributes: object) -> tuple[list[str], object]:
    """Return what a call of ``f(self, write)`` writes, with parentheses around guarded parts, and its result."""
    written: list[str] = []
    me = type("Me", (), {"_guard": Guard(written), **attributes})()
    result = f(me, written.append)
    return written, result


def test_the_statements_of_one_line_are_under_one_guard() -> None:
    f = guarded("def f(self, write):\n    write(self.x); write('a')  # atomic\n    write('b')\n")
    assert course(f, x="x") == (["(", "x", "a", ")", "b"], None)


IF = """
def f(self, write):
    if self.free: write("taken"); return 1  # atomic
    elif self.other:
        write("other")
    else:
        write("else")
    write("after")
"""


@pytest.mark.parametrize(
    ("free", "other", "expected"),
    [(True, False, "( taken )"), (False, True, "( ) other after"), (False, False, "( ) else after")],
)
def test_the_other_branches_of_an_if_are_outside(free: bool, other: bool, expected: str) -> None:
    assert course(guarded(IF), free=free, other=other) == (expected.split(), 1 if free else None)


def test_a_traceback_shows_the_line_of_the_source() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        course(guarded("def f(self, write):\n\n    self.x = 1 / self.y  # atomic\n"), y=0)
    assert caught.traceback[-1].lineno == 2  # counted from 0
