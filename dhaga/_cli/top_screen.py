"""The state of a live ``top``: the rows or the text on the screen, and the effect of each key. ``keyboard`` reads the
terminal; an inspector client queries the process.

``mode`` is the method that handles the next key: browse, edit_filter, read_dump or confirm_cancel. The first row is
marked until the user chooses another row. ``chosen`` is the ident of the chosen dhaga, or the key of the chosen group,
so that the row stays marked while rows move. The choice ends when the row is gone, or when the user presses home.
``cancel`` uses the ident that the user has confirmed, because another row may be marked in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from ..debug._dhaga_table import SORTS
from ..debug._remote.client import printable
from . import top_table
from .top_history import HistoryLines
from .top_threads import ThreadShares

HELP = "q quit  / filter  s sort  g group  ↑↓ choose  enter dump or unfold  x cancel"


class TableSource(Protocol):
    """The methods of ``InspectorClient`` that a screen uses."""

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send a query and return its answer."""


def identity_of(row: dict[str, Any]) -> int | str:
    """Return the identity of a row: its ident, or the key of a group."""
    return row["key"] if row["kind"] == "group" else row["ident"]  # type: ignore[no-any-return]


class Screen:
    """A table with a filter, a sort order and a chosen row."""

    def __init__(self, client: TableSource, filter: str, sort: str, grouped: bool = True) -> None:
        self.client = client
        self.filter = filter
        self.sort = sort
        self.grouped = grouped
        self.height, self.width = 24, 80
        self.answer: dict[str, Any] = {}
        self.history = HistoryLines()
        self.threads = ThreadShares()
        self.chosen: int | str | None = None
        self.opened: list[str] = []  # keys of unfolded groups
        self.mode: Callable[[str], None] = self.browse
        self.text: list[str] = []  # lines of the current dump
        self.first_line = 0  # index of the dump's line at the top of the screen
        self.message = ""
        self.finished = False

    # ---- content

    def refresh(self) -> None:
        """Query the table again. Raises: NotAnswered."""
        self.answer = self.client.ask(
            "table", filter=self.filter, sort=self.sort, grouped=self.grouped, opened=self.opened
        )
        self.threads.update(self.answer)
        past = self.client.ask("history", since=self.history.last)
        self.history.extend(past["samples"], past["preempted"])
        if self.chosen not in [identity_of(row) for row in self.rows]:
            self.chosen = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.answer["rows"]
        return rows

    @property
    def marked_index(self) -> int:
        """Index of the chosen row; 0 if no row is chosen."""
        return next((number for number, row in enumerate(self.rows) if identity_of(row) == self.chosen), 0)

    @property
    def marked(self) -> dict[str, Any] | None:
        """The row to which keys apply; None if there are no rows."""
        return self.rows[self.marked_index] if self.rows else None

    def head(self) -> list[Text]:
        """Return the lines above the table."""
        return [*top_table.summary(self.answer, self.filter), *self.threads.draw(), *self.history.draw(self.width)]

    def visible(self) -> int:
        """Return the number of rows that fit between the column heads and the status line."""
        return max(1, self.height - 2 - len(self.head()))

    def draw(self) -> RenderableType:
        if self.mode == self.read_dump:
            return Group(*map(Text, self.text[self.first_line : self.first_line + self.height - 1]), self.status_line())
        first = min(max(0, self.marked_index - self.visible() + 1), max(0, len(self.rows) - self.visible()))
        rows = self.rows[first : first + self.visible()]
        table = top_table.table_of(self.answer, rows, self.sort, self.width, self.marked)
        lines: list[RenderableType] = [*self.head(), table, self.status_line()]
        for line in lines:
            if isinstance(line, Text):
                line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def status_line(self) -> Text:
        if self.mode == self.edit_filter:
            return Text(f"/{self.filter}▏ enter: done, escape: no filter", style="bold")
        if self.mode == self.confirm_cancel:
            return Text(printable(f"cancel {self.name_to_cancel}? y: yes"), style="bold red")
        if self.mode == self.read_dump:
            return Text("↑↓ scroll  escape back  q quit", style="dim")
        return Text(printable(self.message) or HELP, style="bold" if self.message else "dim")

    def name(self) -> str:
        return str(self.marked["name"]) if self.marked else ""

    # ---- keys: the method of the current mode handles the next key

    def press(self, key: str) -> None:
        """Handle one key. Raises: NotAnswered."""
        self.message = ""
        self.mode(key)

    def browse(self, key: str) -> None:
        actions: dict[str, Callable[[], object]] = {
            "q": self.quit,
            "/": lambda: self.switch_mode(self.edit_filter),
            "s": self.next_sort,
            "g": self.toggle_groups,
            "enter": self.dump_or_unfold,
            "d": self.dump_or_unfold,
            "x": self.ask_to_cancel,
            "escape": self.drop_filter,
        }
        if key in actions:
            actions[key]()
        elif self.rows:
            self.move(key)

    def move(self, key: str) -> None:
        index = self.marked_index + self.step(key)
        self.chosen = None if key == "home" else identity_of(self.rows[min(max(0, index), len(self.rows) - 1)])

    def step(self, key: str) -> int:
        page, all = self.visible(), 1_000_000
        steps = {"up": -1, "down": 1, "k": -1, "j": 1, "page up": -page, "page down": page, "home": -all, "end": all}
        return steps.get(key, 0)

    def edit_filter(self, key: str) -> None:
        """Edit the filter. Each key applies the new filter immediately."""
        if key == "enter":
            self.switch_mode(self.browse)
        elif key == "escape":
            self.drop_filter()
        elif key == "backspace":
            self.filter = self.filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self.refresh()

    def read_dump(self, key: str) -> None:
        """Scroll through a dump."""
        if key == "q":
            self.quit()
        elif key in ("escape", "enter", "d"):
            self.switch_mode(self.browse)
        self.first_line = min(max(0, self.first_line + self.step(key)), max(0, len(self.text) - self.height + 1))

    def confirm_cancel(self, key: str) -> None:
        self.switch_mode(self.browse)
        if key in ("y", "Y"):
            self.cancel()

    def switch_mode(self, mode: Callable[[str], None]) -> None:
        self.mode = mode

    def quit(self) -> None:
        self.finished = True

    def next_sort(self) -> None:
        sorts = list(SORTS)
        self.sort = sorts[(sorts.index(self.sort) + 1) % len(sorts)]
        self.refresh()

    def drop_filter(self) -> None:
        self.filter = ""
        self.switch_mode(self.browse)
        self.refresh()

    def toggle_groups(self) -> None:
        self.grouped = not self.grouped
        self.refresh()

    def dump_or_unfold(self) -> None:
        """Show the dump of the marked row; if the row is a group, unfold or fold it."""
        if self.marked and self.marked["kind"] == "group":
            key = self.chosen = self.marked["key"]
            self.opened = [each for each in self.opened if each != key] + ([] if self.marked["open"] else [key])
            self.refresh()
        else:
            self.dump()

    def dump(self) -> None:
        if self.marked:
            text = self.client.ask("dump", ident=self.marked["ident"])["text"]
            self.text = [printable(line) for line in text.splitlines()]
            self.first_line = 0
            self.switch_mode(self.read_dump)

    def ask_to_cancel(self) -> None:
        if self.marked and self.marked["kind"] == "group":
            self.message = "unfold the group by enter, and choose one dhaga"
        elif self.marked and self.marked["kind"] != "dhaga":
            self.message = f"{self.name()} is not a dhaga and cannot be cancelled"
        elif self.marked:
            self.ident_to_cancel, self.name_to_cancel = self.marked["ident"], self.name()
            self.switch_mode(self.confirm_cancel)

    def cancel(self) -> None:
        answer = self.client.ask("cancel", ident=self.ident_to_cancel)
        self.message = f"{answer['name']} {'is cancelled' if answer['cancelled'] else 'has ended'}"
        self.refresh()
