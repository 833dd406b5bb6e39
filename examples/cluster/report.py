"""What a run shows while it goes on, and says at its end."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from typing import Any, Final

from examples._late import Late
from examples.backup.report import table

from .driver import Driver
from .outcome import Outcome
from .tasks import Report

SHOWN: Final = 10
LINE_SECONDS: Final = 5.0

tqdm: Any = Late("tqdm")


class Progress:
    """A bar in a terminal, elsewhere a line now and then; nothing where that was asked for."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._bar: Any = None
        self._next_line = float("inf") if quiet else time.monotonic() + LINE_SECONDS
        if sys.stderr.isatty() and not quiet:
            tqdm.tqdm.monitor_interval = 0  # no thread of its own
            self._bar = tqdm.tqdm(unit=" sources", total=total, mininterval=0, leave=False)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        tqdm.tqdm.write(text, file=sys.stderr)

    def draw(self, driver: Driver) -> None:
        """Show how far a run is."""
        outcome = driver.outcome
        done = len(outcome.sources) - len(driver.waiting) - len(driver.under_way)
        postfix = f"{driver.held} in flight, {len(outcome.failed)} failed, {sent_again(outcome)} sent again"
        if self._bar is not None:
            self._bar.n = done
            self._bar.set_postfix_str(postfix, refresh=False)
            self._bar.refresh()
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self.say(f"{done:,} of {len(outcome.sources):,} sources, {postfix}")


def sent_again(outcome: Outcome) -> int:
    """Count the tasks that were sent for a source that had one already."""
    return sum(max(one.sends - 1, 0) for one in outcome.sources)


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Give all of it as plain values."""
    return {
        "run": outcome.run,
        "sources": len(outcome.sources),
        "snapshots": len(outcome.saved),
        "were_there": sum(one.was_there for one in outcome.sources),
        "failed": {one.path: one.failure for one in outcome.failed},
        "left": [one.path for one in outcome.left],
        **{part: sum(getattr(report, part) for report in outcome.reports) for part in _COUNTED},
        "seconds": outcome.seconds,
        "most_held": outcome.most_held,
        "sent_again": sent_again(outcome),
        "workers_restarted": outcome.restarts,
        "workers": {name: len(reports) for name, reports in by_worker(outcome).items()},
        "unreported": _unreported(outcome),
        "problems": outcome.problems,
        "interrupted": outcome.interrupted,
        "error": outcome.error,
    }


_COUNTED: Final = ("files", "bytes", "sent", "deduplicated", "retries", "problem_count")


def by_worker(outcome: Outcome) -> dict[str, list[Report]]:
    """Sort the reports by who made them."""
    found: defaultdict[str, list[Report]] = defaultdict(list)
    for report in outcome.reports:
        found[report.worker].append(report)
    return dict(sorted(found.items()))


def _unreported(outcome: Outcome) -> int:
    return sum(one.report is None and not one.was_there for one in outcome.saved)


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print a summary; what is to be said of single sources goes to standard error."""
    _show_faults(outcome)
    if as_json:
        print(json.dumps(to_json(outcome)))
        return
    values = to_json(outcome)
    print(f"run {outcome.run}: {values['sources']:,} sources, {values['snapshots']:,} of them with their one snapshot")
    parts = [f"{values['were_there']:,} were there before", f"{len(outcome.failed):,} failed"]
    print(f"  {', '.join(parts)}, {len(outcome.left):,} left; {values['most_held']:,} in flight at most")
    again = f"{values['sent_again']:,} sent again, {values['retries']:,} tried again by their workers"
    print(f"  {outcome.seconds:.2f} s; {again}; {outcome.restarts} workers started again\n")
    print(table(["worker", "sources", "files", "bytes", "sent", "deduplicated", "tried again"], _rows(outcome)))
    if _unreported(outcome):
        print(f"\n{_unreported(outcome):,} snapshots are in no row: their workers died before they had told of them")


def _rows(outcome: Outcome) -> list[list[str]]:
    rows = [[name, *_cells(reports)] for name, reports in by_worker(outcome).items()]
    return [*rows, ["all", *_cells(outcome.reports)]]


def _cells(reports: list[Report]) -> list[str]:
    counts = (sum(getattr(report, part) for report in reports) for part in _COUNTED[:-1])
    return [f"{len(reports):,}", *(f"{count:,}" for count in counts)]


def _show_faults(outcome: Outcome) -> None:
    _list("given twice, saved once", list(outcome.twice))
    _list("problem", outcome.problems)
    reasons = Counter(one.failure for one in outcome.failed)
    _list("failed", [f"{reason}{f' ({count} sources)' if count > 1 else ''}" for reason, count in reasons.items()])
    if outcome.error:
        print(f"error: {outcome.error}", file=sys.stderr)
    if outcome.left:
        words = "interrupted" if outcome.interrupted else "not done"
        print(
            f"{words}: {len(outcome.left):,} of {len(outcome.sources):,} sources are left; start the same command "
            "again, and it goes on with them",
            file=sys.stderr,
        )


def _list(title: str, lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        print(f"{title}: {line}", file=sys.stderr)
    if len(lines) > SHOWN:
        print(f"{title}: and {len(lines) - SHOWN} more (--json gives all)", file=sys.stderr)
