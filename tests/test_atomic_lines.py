"""Lines tagged ``atomic`` hold no place where CPython lets another thread in, except at their very end."""

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
FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if "# atomic" in path.read_text("utf-8")]

LETS_IN = ("RESUME", "JUMP_BACKWARD", "CALL", "PRECALL", "SEND", "YIELD", "FOR_ITER", "WITH_EXCEPT_START", "IMPORT")
"""How the names of instructions begin after which another thread may have run."""

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
"""What may follow: it touches nothing that others see."""


def code_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_in(const)


def tagged_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and "# atomic" in token.string}


def instructions_by_line(source: str) -> dict[int, list[dis.Instruction]]:
    """Return the instructions of each tagged line, in order."""
    found: dict[int, list[dis.Instruction]] = {line: [] for line in tagged_lines(source)}
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
        "if not self._waiters: self._flag = True; return",
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
