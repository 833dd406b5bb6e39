"""Docstrings begin with the field's verb, and contain no turn that must be read twice.

``CLEAN`` lists the districts that were edited sentence by sentence. It grows: add a district once it passes.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "dhaga"

CLEAN = (
    "*.py",
    "_iowait",
    "_kernel",
    "_structured",
    "_sync",
    "_workers",
    "aio",
    "compat",
    "http",
    "integrations",
    "monkey",
    "servers",
)
"""Districts of the package: patterns of folders and files, by their path below it."""

FIRST_WORDS = {
    "Be": "Reset, Return, …",
    "Bring": "Pass",
    "Forget": "Remove, Discard",
    "Have": "the verb of the action",
    "Let": "Schedule, Register, Allow, …",
    "Take": "Set, Acquire, Accept, Remove and return, …",
    "Tell": "Return, Report",
}
"""First words of docstrings that name no action, each with better ones."""

TURNS = {
    r"\b(who|what)ever\b": "a noun: any caller",
    r"\b(somebody|nobody|no one)\b": "a noun; or 'uncaught', 'unused', …",
    r"\b(those|all|others) who\b": "a noun: callers, waiters",
    r"(?<!there )\b(is|are) (?-i:none)\b": "is no X",
    r"\bso many\b": "the argument's name: ``seconds`` seconds",
    r", too\b": "'also' before the verb, or nothing",
    r"\bmake such\b": "the verb of the action",
    r"\bstop to count\b": "cancel the timer",
    r"\bthat of (who|what)\b": "a noun: the caller's thread",
    r"\bsome [0-9]": "about",
    r"\bby way of\b": "through",
    r"\bas it stands\b": "unchanged",
    r"\bhanded? (on|out)\b": "pass on, return",
    r"\bfor the sake of\b": "for",
}
"""Turns of docstrings and comments that must be read twice, each with a better form."""


def sources() -> list[Path]:
    paths = [path for each in CLEAN for path in PACKAGE.glob(each)]
    return sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring, including those below attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def bad_first_word(text: str) -> Iterator[str]:
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if better := FIRST_WORDS.get(word):
        yield f"begins with {word!r}; better: {better}"


def bad_turns(text: str) -> Iterator[str]:
    for turn, better in TURNS.items():
        if found := re.search(turn, " ".join(text.split()), re.IGNORECASE):
            yield f"{found[0]!r}; better: {better}"


def faults(source: str) -> list[str]:
    found = list(docstrings(ast.parse(source)))
    first = [f"{line}: {fault}" for line, text in found for fault in bad_first_word(text)]
    return first + [f"{line}: {fault}" for line, text in [*found, *comments(source)] for fault in bad_turns(text)]


@pytest.mark.parametrize("file", sources(), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_docstrings_and_comments_are_read_once(file: Path) -> None:
    assert faults(file.read_text()) == []


def test_the_check_finds_first_words_and_turns() -> None:
    source = 'x = 1\n"""Take it."""\ny = 2  # set by whoever calls\nz = "those who"\n'
    assert [each.partition(":")[0] for each in faults(source)] == ["2", "3"]
