"""Screens: the state of a live ``top``, what keys do to it, and how it looks. Not here: the terminal, the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from . import tables
from .asked import printable
from .crowds import SORTS

HELP = "q quit  / filter  s sort  ↑↓ choose  enter dump  x cancel"
ROUND = 5
"""Lines of the screen that are no rows: summary, head, foot."""


class Asked(Protocol):
    """Whom a screen asks: see ``asked.Line``."""

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Ask and wait for the answer."""


class Screen:
    """One table that is looked at, by filter and sort, with one of its rows chosen."""

    def __init__(self, line: Asked, filter: str, sort: str) -> None:
        self.line = line
        self.filter = filter
        self.sort = sort
        self.height = 24
        self.answer: dict[str, Any] = {}
        self.chosen: int | None = None
        self.mode: Callable[[str], None] = self.browse
        self.text: list[str] = []  # of a dump that is shown
        self.top = 0  # first line of it, or first row, on the screen
        self.message = ""
        self.over = False

    # ---- what is shown

    def refresh(self) -> None:
        """Ask anew. Raises: NotAnswered."""
        self.answer = self.line.ask("table", filter=self.filter, sort=self.sort)
        idents = [row["ident"] for row in self.rows]
        if self.chosen not in idents:
            self.chosen = idents[0] if idents else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.answer["rows"]
        return rows

    @property
    def place(self) -> int:
        """Where the chosen row is."""
        return next((number for number, row in enumerate(self.rows) if row["ident"] == self.chosen), 0)

    def visible(self) -> int:
        """How many rows, or lines, fit."""
        return max(1, self.height - ROUND - len(self.answer["circles"]))

    def draw(self) -> RenderableType:
        if self.mode == self.read:
            return Group(*map(Text, self.text[self.top : self.top + self.height - 1]), self.foot())
        first = min(max(0, self.place - self.visible() + 1), max(0, len(self.rows) - self.visible()))
        rows = self.rows[first : first + self.visible()]
        head = tables.summary(self.answer, self.filter, self.sort)
        return Group(head, tables.table_of(rows, self.answer["measured"], self.chosen), self.foot())

    def foot(self) -> Text:
        if self.mode == self.write:
            return Text(f"/{self.filter}▏ enter: done, escape: no filter", style="bold")
        if self.mode == self.confirm:
            return Text(printable(f"cancel {self.name()}? y: yes"), style="bold red")
        if self.mode == self.read:
            return Text("↑↓ scroll  escape back  q quit", style="dim")
        return Text(printable(self.message) or HELP, style="bold" if self.message else "dim")

    def name(self) -> str:
        return str(self.rows[self.place]["name"]) if self.rows else ""

    # ---- keys: each mode is a method that takes them

    def press(self, key: str) -> None:
        """Do what a key is for. Raises: NotAnswered."""
        self.message = ""
        self.mode(key)

    def browse(self, key: str) -> None:
        actions: dict[str, Callable[[], object]] = {
            "q": self.end,
            "/": lambda: self.go(self.write),
            "s": self.next_sort,
            "enter": self.dump,
            "d": self.dump,
            "x": self.ask_to_cancel,
            "escape": self.drop_filter,
        }
        if key in actions:
            actions[key]()
        elif self.rows:
            self.move(key)

    def move(self, key: str) -> None:
        place = self.place + self.step(key)
        self.chosen = self.rows[min(max(0, place), len(self.rows) - 1)]["ident"]

    def step(self, key: str) -> int:
        page, all = self.visible(), 1_000_000
        steps = {"up": -1, "down": 1, "k": -1, "j": 1, "page up": -page, "page down": page, "home": -all, "end": all}
        return steps.get(key, 0)

    def write(self, key: str) -> None:
        """Take a filter, which counts as it is typed."""
        if key == "enter":
            self.go(self.browse)
        elif key == "escape":
            self.drop_filter()
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self.refresh()

    def read(self, key: str) -> None:
        """Leaf through a dump."""
        if key == "q":
            self.end()
        elif key in ("escape", "enter", "d"):
            self.go(self.browse)
        self.top = min(max(0, self.top + self.step(key)), max(0, len(self.text) - self.height + 1))

    def confirm(self, key: str) -> None:
        self.go(self.browse)
        if key in ("y", "Y"):
            self.cancel()

    def go(self, mode: Callable[[str], None]) -> None:
        self.mode = mode

    def end(self) -> None:
        self.over = True

    def next_sort(self) -> None:
        sorts = list(SORTS)
        self.sort = sorts[(sorts.index(self.sort) + 1) % len(sorts)]
        self.refresh()

    def drop_filter(self) -> None:
        self.filter = ""
        self.go(self.browse)
        self.refresh()

    def dump(self) -> None:
        if self.chosen is not None:
            text = self.line.ask("dump", ident=self.chosen)["text"]
            self.text = [printable(line) for line in text.splitlines()]
            self.top = 0
            self.go(self.read)

    def ask_to_cancel(self) -> None:
        if self.rows and self.rows[self.place]["kind"] != "dhaga":
            self.message = f"{self.name()} is no dhaga: only those can be cancelled"
        elif self.rows:
            self.victim = self.chosen
            self.go(self.confirm)

    def cancel(self) -> None:
        answer = self.line.ask("cancel", ident=self.victim)
        self.message = f"{answer['name']} {'is cancelled' if answer['cancelled'] else 'has ended'}"
        self.refresh()
