"""What ``python -m dhaga migrate`` prints: the uses as lines or as JSON, what behaves differently, and the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .migrate_files import Unread
from .migrate_names import IMITATED, STANDARD
from .migrate_uses import Use


class Finding(NamedTuple):
    """A use in a file. ``rewritten``: whether ``--rewrite`` changes it; else ``why`` tells why not."""

    file: str
    use: Use
    rewritten: bool = False
    why: str = ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.use.node.lineno}"  # type: ignore[attr-defined]

    def as_json(self) -> dict[str, Any]:
        use = self.use
        return {
            "file": self.file,
            "line": use.node.lineno,  # type: ignore[attr-defined]
            "column": use.node.col_offset + 1,  # type: ignore[attr-defined]
            "kind": use.kind,
            "name": use.path,
            "note": use.note,
            "counterpart": use.counterpart,
            "differs": use.differs,
            "refused_by_as": use.as_it_stands,
            "rewritten": self.rewritten,
            "why": self.why,
        }


class Report(NamedTuple):
    """All that was found in a tree. ``patch``: the diff as bytes, each file in its encoding."""

    files: int
    findings: list[Finding]
    unread: list[Unread]
    diff: str = ""
    patch: bytes = b""

    @property
    def of_others(self) -> list[Finding]:
        """The findings that are not threading's, which need no change."""
        return [each for each in self.findings if each.use.package not in STANDARD]

    @property
    def left(self) -> list[Finding]:
        """Those of gevent and eventlet, and what is like them, that no rewriting changes."""
        return [each for each in self.of_others if not each.rewritten]

    def as_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "findings": [each.as_json() for each in self.findings],
            "unread": [each._asdict() for each in self.unread],
            "route": list(self.route()),
            "diff": self.diff,
        }

    def lines(self) -> Iterator[str]:
        """Give the report as text."""
        for each in self.findings:
            yield line(each)
        if self.findings:
            yield ""
        yield from differences(self.findings)
        yield from map(unread_line, self.unread)
        yield self.summary()
        yield from self.route()

    def lines_of_rewriting(self) -> Iterator[str]:
        """Give what a rewriting leaves, and why."""
        for each in self.left:
            yield f"{each.place}: {each.use.path} is left: {each.why}"
        yield from map(unread_line, self.unread)
        of_others = self.of_others
        yield f"changed: {len(of_others) - len(self.left)} of {len(of_others)} uses of gevent and eventlet"
        yield from self.route(rewritten=True)

    def summary(self) -> str:
        """Return how many uses there are of each library, in how many files."""
        uses = Counter(each.use.package.partition(" ")[0] for each in self.findings)
        files = {name: len({each.file for each in self.findings if each.use.package == name}) for name in uses}
        parts = [f"{name} {number} in {files[name]}" for name, number in sorted(uses.items())]
        return f"files read: {self.files}; uses, in files: {', '.join(parts) or 'none'}"

    def route(self, rewritten: bool = False) -> Iterator[str]:
        """Give how to run the program: as it stands, or what must be changed first."""
        what = "The rest needs no change" if rewritten else "Nothing need be rewritten"
        names = sorted({each.use.package for each in self.left} & set(IMITATED))
        refused = [each for each in self.left if each.use.as_it_stands]
        if names:
            options = " ".join(f"--as {name}" for name in names)
            if refused:
                yield f"By python -m dhaga {options} program.py all runs as it stands but {len(refused)} of them:"
                yield from (f"  {each.place}: {each.use.as_it_stands}" for each in refused)
            else:
                yield f"{what}: python -m dhaga {options} program.py runs it as it stands."
        elif refused:
            yield from (f"{each.place}: {each.use.as_it_stands}" for each in refused)
        elif self.findings:
            yield "Nothing of gevent or eventlet is left: python -m dhaga program.py runs it."


def line(finding: Finding) -> str:
    """Return a use as a line: where, what, its counterpart, and what becomes of it."""
    use = finding.use
    what = f"import {use.path}" if use.kind == "import" else use.path
    note = f" ({use.note})" if use.note else ""
    mark = "; --rewrite changes it" if finding.rewritten else ""
    return f"{finding.place}: {what}{note} -> {use.counterpart}{mark}"


def differences(findings: Iterable[Finding]) -> Iterator[str]:
    """Give what behaves differently, each once, with the names that it is about."""
    names: dict[str, list[str]] = {}
    for each in findings:
        if each.use.differs:
            known = names.setdefault(each.use.differs, [])
            if each.use.path not in known:
                known.append(each.use.path)
    if names:
        yield "What behaves differently under Dhaga's own names:"
        for text, paths in names.items():
            yield f"  {', '.join(paths)}: {text}"
        yield ""


def unread_line(unread: Unread) -> str:
    return f"{unread.file}: not read: {unread.why}"
