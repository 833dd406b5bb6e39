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
    """A row of the table.

    ``by``: the way, or the way out. ``test``: a program or FILE::FUNCTION. ``read``: what its source says. ``looked``:
    the versions that were looked at, and when. ``probed``: the kinds of hooks found, and why each is of no use.
    """

    name: str
    kind: str
    verdict: str
    by: str = ""
    test: str = ""
    read: str = ""
    looked: str = ""
    probed: dict[str, str] | None = None

    def names(self) -> list[str]:
        """Return the packages of the row."""
        return self.name.split(", ")

    def waits_in_c(self) -> bool:
        """Return whether the row says that the package, or a part of it, waits in C."""
        return self.verdict == "blocks" or "waits in C" in self.by + self.read or "extension blocks" in self.by

    def line(self) -> str:
        """Return the row in Markdown."""
        verdict = "waits park" if self.test.startswith(WITHOUT_SERVER) else self.verdict
        how = ": ".join(filter(None, (self.by, self.read)))
        return f"| {self.name} | {verdict} | {how} | {shown(self.test)} | {self.looked} |"


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
            "\n".join(
                [
                    f"## {title}\n",
                    "| package | status | how, or why | test | looked at |",
                    "|---|---|---|---|---|",
                    *lines,
                    "",
                ]
            )
        )
    parts.append(
        "\n".join(
            [
                "## Programs of newcomers\n",
                "A test runs each program with the documented command.\n",
                *("| program | command | result | test |", "|---|---|---|---|"),
                *(each.line() for each in newcomers()),
                "",
            ]
        )
    )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
