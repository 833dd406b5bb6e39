"""Lines marked ``one step`` hold no place where CPython lets another thread in, except at their very end."""

from __future__ import annotations

import dis
import io
import pathlib
import tokenize
from collections.abc import Iterator
from types import CodeType

import pytest

import dhaga

PACKAGE = pathlib.Path(dhaga.__file__).parent
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if "# one step" in path.read_text("utf-8")]

LETS_IN = ("RESUME", "JUMP_BACKWARD", "CALL", "PRECALL", "SEND", "YIELD", "FOR_ITER", "WITH_EXCEPT_START", "IMPORT")
"""How the names of instructions begin after which another thread may have run."""

HARMLESS = (
    "PRECALL",
    "CALL",
    "CACHE",
    "NOP",
    "POP_TOP",
    "LOAD_CONST",
    "STORE_FAST",
    "RETURN_",
    "JUMP_",
    "EXTENDED_ARG",
)
"""What may follow: it touches nothing that others see."""


def code_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_in(const)


def marked_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and "# one step" in token.string}


def instructions_by_line(source: str) -> dict[int, list[dis.Instruction]]:
    """Return the instructions of each marked line, in order."""
    found: dict[int, list[dis.Instruction]] = {line: [] for line in marked_lines(source)}
    for code in code_in(compile(source, "<source>", "exec")):
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno if instruction.positions else None
            if line in found:
                found[line].append(instruction)
    return found


def faults(source: str) -> dict[int, str]:
    """Return, for each marked line that is more than one step, the instruction that comes too late."""
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
def test_nobody_sees_the_middle_of_one_step(path: pathlib.Path) -> None:
    source = path.read_text("utf-8")
    lines = instructions_by_line(source)
    assert lines and all(lines.values())  # each was compiled to something
    assert faults(source) == {}


def test_the_files_of_primitives_have_such_lines() -> None:
    assert {"events.py", "locks.py", "metrics.py", "queue.py", "semaphores.py", "simplequeue.py"} <= {
        path.name for path in FILES
    }


@pytest.mark.parametrize(
    "line",
    [
        "if not self.waiters: self.flag = True; return",
        "if self.free: self.items.append(1); return",
        "former, self.queue = self.queue, None",
        "self.value += 1",
        "x = self.items.popleft()",
        "return self.items.popleft()",
    ],
)
def test_a_line_that_is_one_step_passes(line: str) -> None:
    assert faults(f"def f(self):\n    {line}  # one step\n    return 1\n") == {}


@pytest.mark.parametrize(
    "line",
    [
        "if len(self.items) > 1: self.flag = True",
        "self.value = self.items.popleft()",
        "self.items.popleft(); self.value = 1",
        "self.items.append(self.items.popleft())",
        "while self.free: self.free = False",
        "for self.x in self.items: pass",
        "self.x = [y for y in self.items]",
    ],
)
def test_a_line_that_is_more_is_found_out(line: str) -> None:
    assert list(faults(f"def f(self):\n    {line}  # one step\n    return 1\n")) == [2]
