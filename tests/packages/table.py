"""``python -m tests.packages.table`` writes docs/compatibility.md from compatibility.toml; a test compares the two."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = Path(__file__).with_name("compatibility.toml")
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"

KINDS = {
    "database": "Databases and caches",
    "http": "HTTP clients and services",
    "messages": "Messages, queues, RPC",
    "protocol": "Protocols, names, devices",
    "web": "Web frameworks and servers",
    "concurrency": "Concurrency",
    "observing": "Logs, metrics, progress",
}
VERDICTS = ("works", "works by", "computes", "blocks", "refused", "not tested")
WITHOUT_SERVER = "first_answers"
"""The program whose clients have no server of theirs: it shows that their waits park, and no more."""


class Package(NamedTuple):
    """A row: ``by`` is the way, or the way out; ``test`` a program or FILE::FUNCTION; ``read`` what its source says."""

    name: str
    kind: str
    verdict: str
    by: str = ""
    test: str = ""
    read: str = ""

    def line(self) -> str:
        """Return the row in Markdown."""
        verdict = "waits park" if self.test.startswith(WITHOUT_SERVER) else self.verdict
        return f"| {self.name} | {verdict} | {': '.join(filter(None, (self.by, self.read)))} | {shown(self.test)} |"


class Newcomer(NamedTuple):
    """A program as newcomers write it: by which documented command it runs, and how that ends."""

    program: str
    command: str
    result: str
    test: str

    def line(self) -> str:
        """Return the row in Markdown."""
        return f"| {self.program} | `{self.command}` | {self.result} | {shown(self.test)} |"


def source() -> dict[str, Any]:
    return tomllib.loads(SOURCE.read_text())


def packages() -> list[Package]:
    return [Package(**row) for row in source()["packages"]]


def newcomers() -> list[Newcomer]:
    return [Newcomer(**row) for row in source()["programs"]]


def shown(test: str) -> str:
    """Return a test as the page names it: a program by its words, a function by its file."""
    file, _, function = test.partition("::")
    return f"`tests/{file}`" if function else f"`{test}`" if test else ""


def page() -> str:
    """Return the text of docs/compatibility.md."""
    parts = [source()["head"]]
    for kind, title in KINDS.items():
        lines = [package.line() for package in packages() if package.kind == kind]
        parts.append(
            "\n".join([f"## {title}\n", "| package | status | how, or why | test |", "|---|---|---|---|", *lines, ""])
        )
    parts.append(
        "\n".join(
            [
                "## Programs of newcomers\n",
                "Each is run by the documented command, as it is, in a test.\n",
                *("| program | command | result | test |", "|---|---|---|---|"),
                *(each.line() for each in newcomers()),
                "",
            ]
        )
    )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
