"""The output of ``python -m dhaga migrate``: uses (as lines or JSON), differences in behavior, and commands to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .files import Unread
from .names import IMITATED, STANDARD
from .uses import Use


class Finding(NamedTuple):
    """A use in a file. ``rewritten``: whether ``--rewrite`` changes the use; if not, ``why`` is the reason."""

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
    """All findings in a tree. ``patch``: the diff as bytes, with each file in its own encoding."""

    files: int
    findings: list[Finding]
    unread: list[Unread]
    diff: str = ""
    patch: bytes = b""

    @property
    def of_others(self) -> list[Finding]:
        """The findings except uses of threading, which need no change."""
        return [each for each in self.findings if each.use.package not in STANDARD]

    @property
    def left(self) -> list[Finding]:
        """The findings of gevent, eventlet and similar packages that are not rewritten."""
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
        """Yield the report as text."""
        for each in self.findings:
            yield line(each)
        if self.findings:
            yield ""
        yield from differences(self.findings)
        yield from map(unread_line, self.unread)
        yield self.summary()
        yield from self.route()

    def lines_of_rewriting(self) -> Iterator[str]:
        """Yield a line for each use that a rewriting leaves unchanged, with the reason."""
        for each in self.left:
            yield f"{each.place}: {each.use.path} is left: {each.why}"
        yield from map(unread_line, self.unread)
        of_others = self.of_others
        yield f"changed: {len(of_others) - len(self.left)} of {len(of_others)} uses of gevent and eventlet"
        yield from self.route(rewritten=True)

    def summary(self) -> str:
        """Return the number of uses of each library, and the number of files with such uses."""
        files: dict[str, list[str]] = {}  # the file of each use, by library
        for each in self.findings:
            files.setdefault(each.use.package.partition(" ")[0], []).append(each.file)
        parts = [f"{name} {len(uses)} in {len(set(uses))}" for name, uses in sorted(files.items())]
        return f"files read: {self.files}; uses, in files: {', '.join(parts) or 'none'}"

    def route(self, rewritten: bool = False) -> Iterator[str]:
        """Yield lines that explain how to run the unchanged or rewritten program."""
        what = "The rest needs no change" if rewritten else "No change is needed"
        read = ", as far as files were read" if self.unread else ""
        names = sorted({each.use.package for each in self.left} & set(IMITATED))
        refused = [each for each in self.left if each.use.as_it_stands]
        if names:
            options = " ".join(f"--as {name}" for name in names)
            if refused:
                yield f"Under python -m dhaga {options} program.py all uses run unchanged{read} except {len(refused)}:"
                yield from (f"  {each.place}: {each.use.as_it_stands}" for each in refused)
            else:
                yield f"{what}{read}: python -m dhaga {options} program.py runs it unchanged."
        elif refused:
            yield from (f"{each.place}: {each.use.as_it_stands}" for each in refused)
        elif self.findings:
            yield f"Nothing of gevent or eventlet is left{read}: python -m dhaga program.py runs it."


def line(finding: Finding) -> str:
    """Return a use as one line: place, name, counterpart, and whether it is rewritten."""
    use = finding.use
    what = f"import {use.path}" if use.kind == "import" else use.path
    note = f" ({use.note})" if use.note else ""
    mark = "; --rewrite changes it" if finding.rewritten else ""
    return f"{finding.place}: {what}{note} -> {use.counterpart}{mark}"


def differences(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield each difference in behavior once, with the names to which it applies."""
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
