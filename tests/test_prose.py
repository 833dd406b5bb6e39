"""Docstrings begin with the field's verb; comments, messages and pages contain no turn that must be read twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PYTHON = sorted((ROOT / "dhaga").rglob("*.py"))
C = sorted((ROOT / "dhaga").rglob("*.[ch]"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "api"} & set(page.parts)),
]

FIRST_WORDS = {
    "Be": "Reset, Return, …",
    "Bring": "Pass",
    "Forget": "Remove, Discard",
    "Have": "the verb of the action",
    "How": "a noun: number, interval, length",
    "Let": "Schedule, Register, Allow, …",
    "Take": "Set, Acquire, Accept, Remove and return, …",
    "Tell": "Return, Report",
    "What": "a noun: The state of …, The value of …",
}
"""First words of docstrings that name no action and no thing, each with better ones."""

TURNS = {
    r"\b(who|what)ever\b": "a noun: any caller",
    r"\b(somebody|nobody|no one)\b": "a noun; or 'uncaught', 'unused', …",
    r"\b(those|all|others) who\b": "a noun: callers, waiters",
    r"(?<!there )\b(is|are) (?-i:none)\b": "is no X",
    r"\bso many\b": "the argument's name: ``seconds`` seconds",
    r", too\b": "'also' before the verb, or nothing",
    r"\bas well\b(?! as)": "'also' before the verb, or nothing",
    r"\bmake such\b": "the verb of the action",
    r"\bstop to count\b": "cancel the timer",
    r"\bthat of\b": "a genitive: the caller's thread",
    r"(?<!says )\bwhat (is|are|was|were|comes|came)\b": "a noun: pending errors, runnable dhagas",
    r"(?<!let it )(?<!leave it )\balone\b": "only",
    r"\b(some|so many) [0-9]": "about",
    r"\bby way of\b": "through",
    r"\bas it stands\b": "unchanged",
    r"\bhanded? (on|out)\b": "pass on, return",
    r"\bfor the sake of\b": "for",
    r"\bin (its|the) stead\b": "instead",
    r"\bin the place of\b": "instead of, in place of",
    r"\bbut for (?!all)": "except for",
    r"\bfor want of\b": "without",
    r"\boutside of\b": "outside",
    r"\bno less\b": "at least",
    r"\bmay be had\b|\bto be had\b": "is available",
    r"\b(is|are|be) (looked|asked) (at|for|of)\b": "an active verb: the caller checks",
}
"""Turns that must be read twice, each with a better form."""


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Give each docstring, including those below attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give line and text of each other string of four words or more."""
    documented = {id(each) for each in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(str(part) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(text := node.value, str) and id(node) not in documented:
            yield from [(node.lineno, text)] if len(text.split()) > 3 else []


def comments(source: str) -> Iterator[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def c_comments(source: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(r"/\*(.*?)\*/", source, re.DOTALL):
        yield source[: found.start()].count("\n") + 1, found[1]


def paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Give line and text of each paragraph, list item and table of a page, without code and generated tables."""
    page = re.sub(
        r"^(`{3,}).*?^\1|<!-- (\w+): begin.*?<!-- \2: end -->|<!--.*?-->",
        lambda found: "\n" * found[0].count("\n"),
        page,
        flags=re.S | re.M,
    )
    line = 1
    for text in re.split(r"(?<=\n)(?=\s*\n|- |\d+\. )", page):
        yield line, re.sub(r"`[^`]*`", "…", text)
        line += text.count("\n")


def bad_first_word(text: str) -> Iterator[str]:
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if better := FIRST_WORDS.get(word):
        yield f"begins with {word!r}; better: {better}"


def bad_turns(text: str) -> Iterator[str]:
    for turn, better in TURNS.items():
        if found := re.search(turn, " ".join(text.split()), re.IGNORECASE):
            yield f"{found[0]!r}; better: {better}"


def faults(source: str) -> list[str]:
    tree = ast.parse(source)
    documents = [(each.lineno, str(each.value)) for each in docstrings(tree)]
    first = [f"{line}: {fault}" for line, text in documents for fault in bad_first_word(text)]
    return first + faults_of([*documents, *comments(source), *messages(tree)])


def faults_of(texts: list[tuple[int, str]]) -> list[str]:
    return [f"{line}: {fault}" for line, text in texts for fault in bad_turns(text)]


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_docstrings_comments_and_messages_are_read_once() -> None:
    assert [f"{name(file)}:{fault}" for file in PYTHON for fault in faults(file.read_text())] == []


def test_comments_in_c_are_read_once() -> None:
    assert [f"{name(file)}:{fault}" for file in C for fault in faults_of(list(c_comments(file.read_text())))] == []


def test_pages_are_read_once() -> None:
    assert [f"{name(page)}:{fault}" for page in PAGES for fault in faults_of(list(paragraphs(page.read_text())))] == []


def test_the_check_finds_first_words_and_turns() -> None:
    source = 'x = 1\n"""Take it."""\ny = 2  # set by whoever calls\nz = "a greeting of those who call"\n'
    assert [each.partition(":")[0] for each in faults(source)] == ["2", "3", "4"]
    assert faults_of(list(c_comments("int x;\n/* what is\n   pending */"))) == [
        "2: 'what is'; better: a noun: pending errors, runnable dhagas"
    ]
    page = "Text.\n\n- one\n- as\n  well\n\n```\nalone\n```\n`alone`\n"
    assert faults_of(list(paragraphs(page))) == ["4: 'as well'; better: 'also' before the verb, or nothing"]
