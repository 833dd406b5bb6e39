"""Changes a source text at nodes of its syntax tree, and keeps the formatting and comments of the rest."""

from __future__ import annotations

import ast
import re
import tokenize
from bisect import bisect_right
from typing import NamedTuple

LINE_END = re.compile(r"\r\n|\r|\n")
INSIGNIFICANT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
WIDTH = 100
"""Line length beyond which imported names are put on separate lines."""


class Edit(NamedTuple):
    """The replacement of the text from ``start`` to ``end``."""

    start: int
    end: int
    text: str


class Text:
    """A source text with the positions of its lines, nodes and tokens. Raises: SyntaxError if tokenizing fails."""

    def __init__(self, text: str) -> None:
        self.text = text
        ends = list(LINE_END.finditer(text))
        self.line_end = ends[0][0] if ends else "\n"
        self.starts = [0, *(end.end() for end in ends)]
        self.tokens: list[tuple[int, int, str]] = []
        self.comments: list[int] = []
        lines = iter(
            [*(text[a:b] for a, b in zip(self.starts, self.starts[1:], strict=False)), text[self.starts[-1] :]]
        )
        try:
            for token in tokenize.generate_tokens(lambda: next(lines, "")):
                if token.type == tokenize.COMMENT or token.type not in INSIGNIFICANT:
                    start, end = (self.starts[row - 1] + column for row, column in (token.start, token.end))
                    if token.type == tokenize.COMMENT:
                        self.comments.append(start)
                    else:
                        self.tokens.append((start, end, token.string))
        except (tokenize.TokenError, IndexError) as error:
            raise SyntaxError(f"it cannot be split into tokens: {error}") from None
        self.token_ends = [end for _, end, _ in self.tokens]

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and a column. The column counts bytes of UTF-8, as in syntax trees."""
        start = self.starts[line - 1]
        return start + len(self.text[start : start + column].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        at = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self.offset(*at[:2]), self.offset(*at[2:])

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def has_comment(self, start: int, end: int) -> bool:
        return bisect_right(self.comments, end) > bisect_right(self.comments, start)

    def token_before(self, offset: int) -> tuple[int, int, str]:
        """Return the last token that ends at or before an offset: its start, end and text."""
        return self.tokens[bisect_right(self.token_ends, offset) - 1]

    def token_after(self, offset: int) -> tuple[int, int, str] | None:
        at = bisect_right(self.token_ends, offset)
        return self.tokens[at] if at < len(self.tokens) else None

    def is_alone(self, start: int, end: int) -> bool:
        """Return whether a statement shares its lines with no other statement."""
        line_start = self.starts[bisect_right(self.starts, start) - 1]
        after = self.token_after(end)
        next_line = bisect_right(self.starts, end)
        below = self.starts[next_line] if next_line < len(self.starts) else len(self.text)
        return not self.text[line_start:start].strip() and (after is None or after[0] >= below)

    def indent_of(self, start: int) -> str:
        return self.text[self.starts[bisect_right(self.starts, start) - 1] : start]

    def changed(self, edits: list[Edit]) -> str:
        """Return the text with the edits applied. Equal edits apply once. Raises: ValueError if two edits overlap."""
        parts, at = [], 0
        for edit in sorted(set(edits)):
            if edit.start < at:
                raise ValueError
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.text[at:]])


def add_argument(text: Text, call: ast.Call, argument: str) -> Edit:
    """Return the edit that adds a last argument to a call with arguments.

    The argument is put on a new line if the call's last line contains only the closing parenthesis, and a comma
    precedes the parenthesis.
    """
    _, end = text.span(call)
    start, place, last = text.token_before(end - 1)
    row = bisect_right(text.starts, end - 1) - 1
    begin = text.starts[row]
    if last != ",":
        return Edit(place, place, f", {argument}")
    if text.text[begin : end - 1].strip() or start >= begin:
        return Edit(place, place, f" {argument},")
    line = text.text[text.starts[bisect_right(text.starts, start) - 1] :]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return Edit(begin, begin, f"{indent}{argument},{text.line_end}")


# ---- imports


class Swap(NamedTuple):
    """A name to import from another module than before. ``local`` is the name that the import binds."""

    module: str
    name: str
    local: str

    def __str__(self) -> str:
        return self.name if self.local == self.name else f"{self.name} as {self.local}"


class ImportChange:
    """The changes of an import statement: removed names, swapped names, and an added ``import dhaga``."""

    def __init__(self, statement: ast.Import | ast.ImportFrom) -> None:
        self.statement = statement
        self.dropped: set[ast.alias] = set()
        self.swapped: dict[ast.alias, Swap] = {}
        self.adds = False

    def edit(self, text: Text) -> Edit | None:
        """Return the edit of the text; None if nothing changes."""
        start, end = text.span(self.statement)
        if not (self.dropped or self.swapped or self.adds):
            return None
        if module := self._only_its_module():
            return self._swap_module(text, start, module)
        parts = self._statements(text)
        if not parts:
            return remove(text, start, end)
        alone = text.is_alone(start, end)
        return Edit(start, end, f"{text.line_end}{text.indent_of(start)}".join(parts) if alone else "; ".join(parts))

    def _only_its_module(self) -> str:
        """Return the new module if it is the same for all names and nothing else is edited; otherwise, return ""."""
        modules = {swap.module for swap in self.swapped.values()}
        whole = len(self.swapped) == len(self.statement.names) and len(modules) == 1 and not self.adds
        return modules.pop() if whole else ""

    def _swap_module(self, text: Text, start: int, module: str) -> Edit:
        first, last = text.token_after(start + len("from")), None
        assert first is not None
        at = first[1]
        while (token := text.token_after(at)) is not None and token[2] != "import":
            last, at = token, token[1]
        return Edit(first[0], last[1] if last else first[1], module)

    def _statements(self, text: Text) -> list[str]:
        parts = ["import dhaga"] if self.adds else []
        for module in dict.fromkeys(swap.module for swap in self.swapped.values()):
            names = [str(swap) for swap in self.swapped.values() if swap.module == module]
            parts.append(f"from {module} import {', '.join(names)}")
        kept = [text.of(each) for each in self.statement.names if each not in self.dropped and each not in self.swapped]
        if kept:
            parts.append(self._kept(text, kept))
        return parts

    def _kept(self, text: Text, names: list[str]) -> str:
        start, end = text.span(self.statement)
        if len(names) == len(self.statement.names):
            return text.text[start:end]
        if isinstance(self.statement, ast.Import):
            return f"import {', '.join(names)}"
        head = f"from {'.' * self.statement.level}{self.statement.module or ''} import"
        line = f"{head} {', '.join(names)}"
        indent = text.indent_of(start)
        if len(indent + line) <= WIDTH or not text.is_alone(start, end):
            return line
        rows = "".join(f"{indent}    {name},{text.line_end}" for name in names)
        return f"{head} ({text.line_end}{rows}{indent})"


def remove(text: Text, start: int, end: int) -> Edit:
    """Return the edit that removes a statement, or replaces it with ``pass`` if other statements share its line."""
    if not text.is_alone(start, end):
        return Edit(start, end, "pass")
    row = bisect_right(text.starts, end)
    below = text.starts[row] if row < len(text.starts) else len(text.text)
    if text.text[end:below].strip():
        return Edit(start, end, "")  # keep the comment that follows the statement
    return Edit(text.starts[bisect_right(text.starts, start) - 1], below, "")
