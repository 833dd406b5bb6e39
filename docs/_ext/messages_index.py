"""The errors index: each message that Dhaga raises, read from its source, with the cause and cure of `errors.toml`.

A message is known by its text, in which … stands for each value that is put in. Its anchor is made of the exception and
the first words, so that it stays while other messages come and go.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
CURES = ROOT / "docs" / "reference" / "errors.toml"
PLACEHOLDER = "<!-- the messages -->"
FIRST = ("ParkError", "PatchError", "LeftBehind")
"""The exceptions of Dhaga's own that users meet come before the others; Deadlock stands on the page itself."""

FOLDED = 4
"""Length from which on a list of messages without cause and cure is folded."""

HTTP_REFUSALS = {"bad": "400 Bad Request", "too_large": "431 Request Header Fields Too Large"}
"""Functions that make a `Refusal`."""


class Message(NamedTuple):
    """A message in the source: the exception's name, the text, and the module that raises it."""

    error: str
    text: str
    module: str


def messages(package: Path = ROOT / "dhaga") -> list[Message]:
    """Return every message that is raised with a text of its own, each once for each exception."""
    found: dict[tuple[str, str], Message] = {}
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for error, text in raised(ast.parse(path.read_text())):
            found.setdefault((error, text), Message(error, text, module))
    return sorted(found.values())


def raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Give the exception and the text of each `raise X("text")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            error = ast.unparse(node.exc.func).rpartition(".")[2]
            status, *rest = [template(each) for each in node.exc.args] or [None]
            text = rest[0] if rest and error == "Refusal" else status
            if text is not None and text.strip("… "):
                yield ("Refusal" if error in HTTP_REFUSALS else error), " ".join(text.split())  # of one line


def template(node: ast.expr) -> str | None:
    """Return a text with … for what is put in; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "…" for each in node.values)  # type: ignore[misc]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (template(node.left) or "…") + (template(node.right) or "…")
    return None


def cures() -> list[dict[str, str]]:
    """Return the entries of `errors.toml`: text, cause, cure."""
    return tomllib.loads(CURES.read_text())["message"]  # type: ignore[no-any-return]


def explained() -> str:
    """Return the index as Markdown: by exception, those with cause and cure first."""
    known = {each["text"]: each for each in cures()}
    by_error: dict[str, list[Message]] = {}
    for message in messages():
        by_error.setdefault(message.error, []).append(message)
    lines: list[str] = []
    anchors = anchors_of(messages())
    for error in [*FIRST, *sorted(by_error.keys() - set(FIRST), key=str.lower)]:
        group = by_error[error]
        lines += [f"## {error}", ""]
        lines += [line for each in group if each.text in known for line in entry(each, known[each.text], anchors[each])]
        rest = [each for each in group if each.text not in known]
        lines += folded([f"- {linked(each.text, anchors[each])} ({each.module})" for each in rest])
        lines.append("")
    return "\n".join(lines)


def folded(items: list[str]) -> list[str]:
    """Return a list; a long one unfolds at a click, at a link into it, and where the filter finds something."""
    if len(items) < FOLDED:
        return items
    return [f"<details><summary>{len(items)} without further explanation</summary>", "", *items, "", "</details>", ""]


def entry(message: Message, known: dict[str, str], anchor: str) -> list[str]:
    head = linked(message.text, anchor)
    return [head, f": *Cause.* {known['cause']}", "", f"  *Cure.* {known['cure']}", ""]


def anchors_of(found: list[Message]) -> dict[Message, str]:
    """Return an anchor for each message; a number tells those apart that begin alike."""
    anchors: dict[Message, str] = {}
    for message in found:
        words = re.findall(r"[a-z0-9]+", message.text.lower())[:6]
        anchor = "-".join([message.error.lower(), *words])
        times = sum(each == anchor or each.startswith(f"{anchor}--") for each in anchors.values())
        anchors[message] = f"{anchor}--{times + 1}" if times else anchor
    return anchors


def linked(text: str, anchor: str) -> str:
    """Return a text as code with an anchor, and a link to it."""
    return f"{shown(text)}{{#{anchor}}}[¶](#{anchor}){{.message-link}}"


def shown(text: str) -> str:
    """Return a text as code, whatever backquotes it has."""
    text = " ".join(text.split())
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fill(app: Any, docname: str, source: list[str]) -> None:
    """Put the index in where the page has its placeholder."""
    if PLACEHOLDER in source[0]:
        source[0] = source[0].replace(PLACEHOLDER, explained())


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
