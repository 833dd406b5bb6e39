"""The errors index: each message that Dhaga raises, read from its source, with the cause and cure of `errors.toml`.

A message is known by its text, in which … stands for each value that is put in.
"""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
CURES = ROOT / "docs" / "reference" / "errors.toml"
PLACEHOLDER = "<!-- the messages -->"

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
    for error, group in sorted(by_error.items(), key=lambda item: item[0].lower()):
        lines += [f"## {error}", ""]
        lines += [line for each in group if each.text in known for line in entry(each, known[each.text])]
        rest = [each for each in group if each.text not in known]
        if rest:
            lines += ["" if len(rest) == len(group) else "Others:", ""]
            lines += [f"- {shown(each.text)} ({each.module})" for each in rest]
        lines.append("")
    return "\n".join(lines)


def entry(message: Message, known: dict[str, str]) -> list[str]:
    return [shown(message.text), f": *Cause.* {known['cause']}", "", f"  *Cure.* {known['cure']}", ""]


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
