"""Displays for IPython: the command ``%dhaga``, and HTML tables of dhagas and scopes in a notebook.

All texts come from programs, so each is escaped. A table is a list of rows of cells; the first row is the head.
Rejected: ``_repr_html_`` methods of ``Dhaga`` and ``Scope``. The modules of these classes must not import the debugging
tools that write the tables. Without the extension, IPython shows the repr: one line with a dhaga's state and wait, or
with a scope's state and number of children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from .._kernel.run.microthread import Dhaga
from .._kernel.wait.wait_graph import holders_of
from .._structured.scope import Scope
from ..debug._dhaga_table import DhagaTable
from ..debug._dump import duration, one_line
from ..debug._snapshot import DhagaView, view_of

Row = Sequence[str]

HEAD = ("name", "state", "cpu", "waited", "reason", "on", "scheduler")
MOST_CHILDREN = 50
"""Maximum number of a scope's children that are shown."""


class Overview:
    """The value of ``%dhaga``, as text and as HTML: a headline, deadlocks, and a table of dhagas."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        circles = [f"deadlock: {' waits for '.join([*circle, circle[0]])}" for circle in answer["cycles"]]
        self.lines = [one_line(line) for line in (answer["headline"], *circles)]
        self.rows = [HEAD, *(cells(row, answer["measured"]) for row in answer["rows"])]
        self.more = [f"and {answer['hidden']:,} more"] if answer["hidden"] else []

    def __repr__(self) -> str:
        return "\n".join([*self.lines, *aligned(self.rows), *self.more])

    def _repr_html_(self) -> str:
        headline, *circles = map(escape, self.lines)
        lines = [f"<b>{headline}</b>", *circles, html_table(self.rows), *map(escape, self.more)]
        return "".join(f"<div>{line}</div>" for line in lines)


def cells(row: Mapping[str, Any], measured: bool) -> Row:
    """Return the cells of a row of ``DhagaTable``."""
    name = f"{row['count']:,} × {row['name']}" if row["kind"] == "group" else row["name"]
    waited = "" if row["seconds"] is None else duration(row["seconds"])
    share = f"{row['share']:.0%}" if measured and row["share"] is not None else ""
    target = row["waits_on"] or ", ".join(row["held_by"])
    return [one_line(cell) for cell in (name, row["state"], share, waited, row["reason"], target, row["scheduler"])]


def aligned(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a table as text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def html_table(rows: Sequence[Row]) -> str:
    """Return a table as HTML. Its texts are escaped and aligned to the left."""
    head, *others = rows
    lines = [tag_all("th", head), *(tag_all("td", row) for row in others)]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def tag_all(tag: str, row: Row) -> str:
    return "".join(f'<{tag} style="text-align: left">{escape(cell)}</{tag}>' for cell in row)


# ---- single objects


def html_of_dhaga(dhaga: Dhaga[Any]) -> str:
    """Return an HTML table of a dhaga's name, state, wait, ident and scopes."""
    view = view_of(dhaga)
    wait = waits_for(view)
    fields = [("dhaga", view.name), ("state", view.state), ("waits for", wait), ("ident", str(view.ident))]
    fields += [("held by", ", ".join(view.held_by)), ("scopes", " > ".join(view.scopes))]
    return html_table([[one_line(cell) for cell in field] for field in fields if field[1]])


def html_of_scope(scope: Scope) -> str:
    """Return a scope as HTML: its repr, and a table of its children."""
    children = [view_of(child) for child in holders_of(scope) if isinstance(child, Dhaga)]
    rows = [[one_line(cell) for cell in (view.name, view.state, waits_for(view))] for view in children[:MOST_CHILDREN]]
    more = f"<div>and {len(children) - MOST_CHILDREN:,} more</div>" if len(children) > MOST_CHILDREN else ""
    table = html_table([("child", "state", "waits for"), *rows]) if rows else ""
    return f"<div>{escape(one_line(repr(scope)))}</div>{table}{more}"


def waits_for(view: DhagaView) -> str:
    """Return the reason, object and duration of a dhaga's wait: ``lock.acquire on <Lock …> for 3.0 s``."""
    if view.reason is None:
        return ""
    target = f" on {view.waits_on}" if view.waits_on else ""
    return f"{view.reason}{target}" + ("" if view.seconds is None else f" for {duration(view.seconds)}")


# ---- in a shell

MAGIC = "dhaga"
FORMS = {Dhaga: html_of_dhaga, Scope: html_of_scope}
"""For each class, the function that returns the HTML of an object of this class."""


def show_in(shell: Any) -> None:
    """Register ``%dhaga``, and the HTML of dhagas and scopes, in a shell."""
    table = DhagaTable()

    def dhaga(line: str) -> Overview:
        """Show the dhagas of this process. With a word, show only dhagas with this word in name, state, reason or
        scheduler.
        """
        return Overview(table.table(filter=line.strip(), grouped=True))

    shell.register_magic_function(dhaga, "line", MAGIC)
    for kind, html in FORMS.items():
        shell.display_formatter.formatters["text/html"].for_type(kind, html)


def remove_from(shell: Any) -> None:
    """Remove ``%dhaga``, and the HTML of dhagas and scopes, from a shell."""
    shell.magics_manager.magics["line"].pop(MAGIC, None)
    for kind in FORMS:
        shell.display_formatter.formatters["text/html"].pop(kind, None)
