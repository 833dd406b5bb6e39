"""One row of the table of dhagas. Cheap columns are read for all dhagas, expensive ones only for the shown rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._kernel.wait.waiter import Waiter
from ._cpu_share import Share
from ._snapshot import state_of, view_of

NO_SHARE = Share(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class DhagaRow:
    """The cheap columns of one dhaga, main code or parked OS thread."""

    waiter: Waiter
    ident: int
    name: str
    state: str
    reason: str
    since: float
    scheduler: str
    share: Share

    def text(self) -> str:
        """Return the text in which a filter is searched, in lower case."""
        return f"{self.name} {self.state} {self.reason} {self.scheduler}".lower()


def row_of(waiter: Any, scheduler: str, shares: Mapping[int, Share]) -> DhagaRow:
    reason = waiter.park_reason if waiter.parked else ""
    ident = waiter.ident
    return DhagaRow(
        waiter,
        ident,
        waiter.name,
        state_of(waiter),
        reason,
        waiter.parked_since,
        scheduler,
        shares.get(ident, NO_SHARE),
    )


def all_columns(row: DhagaRow) -> dict[str, Any]:
    """Return the row with its expensive columns, ready for JSON."""
    view = view_of(row.waiter)
    return {
        "ident": row.ident,
        "name": row.name,
        "kind": view.kind,
        "scheduler": row.scheduler,
        "state": row.state,
        "reason": row.reason,
        "seconds": view.seconds if row.reason and row.since else None,  # ``since`` is 0 until a park reads the clock
        "held": row.share.held,
        "share": row.share.cpu,
        "waits_on": view.waits_on,
        "held_by": view.held_by,
    }


def stem(text: str) -> str:
    """Return a name or reason without the trailing number: ``read fd`` for ``read fd 7``."""
    return text.rstrip("0123456789 ")
