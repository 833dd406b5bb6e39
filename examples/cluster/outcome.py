"""What becomes of the sources of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from examples.backup.catalogue import SnapshotStatus

from .tasks import Report


@dataclass(eq=False)
class Source:
    """The state of a source in a run. Times are monotonic. A source falls when the worker that held it has gone."""

    path: str
    name: str
    sends: int = 0
    sent: float = 0.0
    held: float = 0.0
    is_held: bool = False
    falls: int = 0
    trouble: str = ""
    was_there: bool = False
    standing: SnapshotStatus | None = None
    report: Report | None = None
    failure: str = ""

    @property
    def is_saved(self) -> bool:
        """Return whether its snapshot is committed."""
        return self.standing is not None and self.standing.committed


@dataclass
class Outcome:
    """What became of a run, once it has ended for whatever reason."""

    run: str
    sources: list[Source]
    seconds: float = 0.0
    restarts: int = 0
    most_held: int = 0
    interrupted: bool = False
    error: str = ""
    twice: tuple[str, ...] = field(default=())

    @property
    def saved(self) -> list[Source]:
        """Give those with a committed snapshot."""
        return [one for one in self.sources if one.is_saved]

    @property
    def failed(self) -> list[Source]:
        """Give those of which there will be none."""
        return [one for one in self.sources if one.failure and not one.is_saved]

    @property
    def left(self) -> list[Source]:
        """Give those that another run has to do."""
        return [one for one in self.sources if not one.failure and not one.is_saved]

    @property
    def reports(self) -> list[Report]:
        """Give what their tasks told."""
        return [one.report for one in self.sources if one.report]

    @property
    def problems(self) -> list[str]:
        """Give what went wrong with single files."""
        return [f"{one.path}: {text}" for one in self.sources if one.report for text in one.report.problems]
