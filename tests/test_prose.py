"""Docstrings begin with the field's verb; comments, messages and pages contain no turn that must be read twice."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    r"\bnumber of last\b": "number of most recent",
    r"\bshown of a\b": "of a line that are shown",
    r"\bleast number\b": "minimum number",
    r"\banew\b": "again",
    r"\b(its|same) begin\b": "start",
    r"\breplaces? [^.:;]{1,60} by (a|an|the|its)\b": "replace … with",
    r"\b(run|call|import)s? [\w' ]+ by (the standard )?[`…]": "with, for a tool",
    r", as (of|on) (one|objects|code|the)\b": "such as, or two sentences",
}
"""Turns that must be read twice, each with a better form."""

NO_NOUN = re.compile(r"(By|Of) ")
"""Beginning of a docstring whose noun is only in the variable's name: "By signal number." below ``handlers``."""

VERBS = "is|are|was|were|has|have|may|might|can|cannot|could|must|need|needs|would|will|cost|costs|allows|refuse|needs"
BECAUSE = re.compile(
    r"(?:^|[,;(] ?)as (?!if\b|far\b|ever\b|much\b|well\b|soon\b|long\b|text\b|for\b|in\b|with\b|by\b)"
    r"(?:(?:it|they|that|these|those|there|this|otherwise|nothing|none|no \w+|its \w+|their \w+|each|both|others)"
    r" (?!does\b|do\b|did\b|sees\b|become\b|end\b|(?:is|are|would be)(?:,|\.| (?:in|by|for)\b))"
    rf"|(?!(?:it|they)\b)(?:[\w'….()-]+ ){{1,6}}?(?:{VERBS})\b(?! be[.,]| here\b|[.,]| (?:it|them)\b[.,;:]))",
    re.IGNORECASE,
)
"""*as* before a reason: it is first read as *while* or *like*."""

POINTERS = re.compile(r"\b(it|its|itself|that|this|these|those|ones?|they|them|their|which|so)\b", re.IGNORECASE)
MOST_POINTERS = 5
"""Words of a sentence that point to others. The reader looks up what each stands for."""

BARE_FIGURE = re.compile(
    r"[0-9] ?(?:s|ms|µs|ns|[KMG]?B|%)\b[^;:.]*?(?:,|\band) [0-9][0-9.,]* (?:with|without|by|beside|instead)\b"
)
"""A figure with its unit, and after it another one without: 0.24 µs for …, 0.05 with …"""

MOST_WORDS = 40


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


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring or a block of comments, without examples; code is an ellipsis."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=- |>>> |\||\d\. )", text):
        if not paragraph.lstrip().startswith((">>>", "|")):
            words = " ".join(re.sub(r"``[^`]*``", "…", paragraph).split())
            yield from re.split(r"(?<=[.!?])\s+|(?<=:)\s+(?=[A-Z…\"(*])", words)


def comment_blocks(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each block of comments; those behind code are blocks of their own."""
    begin, end, block = 0, -1, ""
    for line, text in comments(source):
        if line != end + 1 or not source.splitlines()[line - 1].lstrip().startswith("#"):
            yield from [(begin, block)] if block else []
            begin, block = line, ""
        end, block = line, f"{block}\n{text.lstrip('# ')}"
    yield from [(begin, block)] if block else []


def bad_sentences(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        if found := BECAUSE.search(sentence):
            yield f"{found[0]!r}; better: because, since, or a colon"
        if len(POINTERS.findall(sentence)) > MOST_POINTERS:
            yield f"{sentence[:60]!r} points {len(POINTERS.findall(sentence))} times; better: the nouns"
        if found := BARE_FIGURE.search(sentence):
            yield f"{found[0]!r}; better: each figure with its unit and its subject"
        if len(sentence.split()) > MOST_WORDS:
            yield f"{sentence[:60]!r} has {len(sentence.split())} words; better: two sentences"


def sentence_faults_of(texts: list[tuple[int, str]]) -> list[str]:
    return [f"{line}: {fault}" for line, text in texts for fault in bad_sentences(text)]


def sentence_faults(source: str) -> list[str]:
    texts = [(each.lineno, str(each.value)) for each in docstrings(ast.parse(source))]
    first = [
        f"{line}: begins with {found[1]!r}; better: a noun" for line, text in texts if (found := NO_NOUN.match(text))
    ]
    return first + sentence_faults_of([*texts, *comment_blocks(source)])


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


def test_sentences_of_docstrings_and_comments_are_read_once() -> None:
    assert [f"{name(file)}:{fault}" for file in PYTHON for fault in sentence_faults(file.read_text())] == []


def test_comments_in_c_are_read_once() -> None:
    texts = [(file, list(c_comments(file.read_text()))) for file in C]
    found = [f"{name(file)}:{fault}" for file, comments in texts for fault in faults_of(comments)]
    assert found + [f"{name(file)}:{fault}" for file, comments in texts for fault in sentence_faults_of(comments)] == []


def test_pages_are_read_once() -> None:
    assert [f"{name(page)}:{fault}" for page in PAGES for fault in faults_of(list(paragraphs(page.read_text())))] == []


def test_sentences_of_pages_are_read_once() -> None:
    texts = [(page, list(paragraphs(page.read_text()))) for page in PAGES]
    assert [f"{name(page)}:{fault}" for page, each in texts for fault in sentence_faults_of(each)] == []


def test_the_check_finds_first_words_and_turns() -> None:
    source = 'x = 1\n"""Take it."""\ny = 2  # set by whoever calls\nz = "a greeting of those who call"\n'
    assert [each.partition(":")[0] for each in faults(source)] == ["2", "3", "4"]
    assert faults_of(list(c_comments("int x;\n/* what is\n   pending */"))) == [
        "2: 'what is'; better: a noun: pending errors, runnable dhagas"
    ]
    page = "Text.\n\n- one\n- as\n  well\n\n```\nalone\n```\n`alone`\n"
    assert faults_of(list(paragraphs(page))) == ["4: 'as well'; better: 'also' before the verb, or nothing"]


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("The fd is copied, as the loop may close it.", "because"),
        ("As it is level-triggered, it is registered late.", "because"),
        ("It takes 0.24 µs for a line, 0.05 with the standard one.", "unit"),
        ("It says that it wakes those that wait for it, so that they see it.", "nouns"),
        (f"A sentence of {'many ' * 40}words.", "two sentences"),
    ],
)
def test_the_check_finds_sentences(sentence: str, fault: str) -> None:
    [found] = sentence_faults(f'x = 1\n"""The name.\n\n{sentence}\n"""\n')
    assert found.startswith("2: ") and fault in found
    first, _, last = sentence.rpartition(" ")
    [found] = sentence_faults(f"x = 1\n# {first}\n# {last}\ny = 2\n")
    assert found.startswith("2: ") and fault in found
    for texts in c_comments(f"int x;\n/* {first}\n{last} */"), paragraphs(f"# Title\n\n{first}\n{last}\n"):
        [found] = sentence_faults_of(list(texts))
        assert fault in found


@pytest.mark.parametrize(
    "sentence",
    [
        "Close it, as the standard does.",
        "Return the waits, as text, as far as they are known.",
        "As in Go, it is 10 ms.",
        "It takes 0.24 µs for a line, and 0.05 µs with the standard one.",
        "A wait ends as soon as it has an item, as it does in tests.",
    ],
)
def test_the_check_lets_other_sentences_pass(sentence: str) -> None:
    assert sentence_faults(f'x = 1\n"""{sentence}"""\n') == []


def test_the_check_finds_a_docstring_without_its_noun() -> None:
    assert sentence_faults('handlers = {}\n"""By signal number."""\n') == ["2: begins with 'By'; better: a noun"]
