"""The survival of unsynced writes and names at a kill, drawn from the seed.

POSIX promises nothing about them. Disks and file systems write them at any time, in any order, and a write may be cut.
But a sector is whole, the old one or a new one; and a change of names is whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ._inodes import Change, File, Resize, Write, apply, resize

DRAWN, LOST, KEPT = "drawn", "lost", "kept"
CHOICES = (DRAWN, LOST, KEPT)
"""The choices for unsynced writes."""

PREFIX, SCATTERED = "prefix", "scattered"
"""Survive in order up to a drawn point, or each by itself."""

WAYS = (LOST, KEPT, PREFIX, SCATTERED)


def check_unsynced(unsynced: object) -> None:
    """Check the choice for unsynced writes. Raises: ValueError."""
    if unsynced not in CHOICES:
        raise ValueError(f"unsynced is {', '.join(map(repr, CHOICES))}, and not {unsynced!r}")


class Survival:
    """The draws of one kill. ``sector``: bytes that are written as a whole."""

    def __init__(self, draw: random.Random, sector: int, unsynced: str = DRAWN) -> None:
        self.draw = draw
        self.sector = sector
        # One way for all is as likely as one drawn for each file: a power cut may come before any write, or after all.
        self.way = draw.choice((*WAYS, DRAWN, DRAWN)) if unsynced == DRAWN else unsynced
        self.share = draw.random()

    def way_of_one(self) -> str:
        return self.draw.choice(WAYS) if self.way == DRAWN else self.way

    # ---- contents

    def content_of(self, file: File) -> tuple[bytearray, str]:
        """Return the content of a file that survives, and how."""
        way = self.way_of_one()
        if way == LOST:
            return bytearray(file.durable), way
        if way == KEPT:
            return file.content(), way
        return (self.prefix_of(file) if way == PREFIX else self.scattered(file)), way

    def prefix_of(self, file: File) -> bytearray:
        """Return the content after some steps, the last one of them cut: at a sector, or at any byte."""
        content = bytearray(file.durable)
        count = self.draw.randrange(len(file.steps) + 1)
        for step in file.steps[:count]:
            apply(content, step)
        cut = file.steps[count] if count < len(file.steps) else None
        if isinstance(cut, Write):
            size = self.draw.randrange(len(cut.data) + 1)
            if self.draw.random() < 0.5:
                size = max(0, (cut.offset + size) // self.sector * self.sector - cut.offset)
            if size:
                apply(content, Write(cut.offset, cut.data[:size]))
        return content

    def scattered(self, file: File) -> bytearray:
        """Return a content of which each sector survives by itself; the size is that after some of the steps."""
        content = bytearray(file.durable)
        sizes = self.draw.randrange(len(file.steps) + 1)
        old: set[int] = set()
        for number, step in enumerate(file.steps):
            grows = number < sizes
            if isinstance(step, Resize):
                if not grows:
                    # Later writes are in blocks that the file does not have.
                    break
                resize(content, step.size)
                continue
            if grows:
                resize(content, max(len(content), step.end))
            for piece in self.pieces(step):
                sector = piece.offset // self.sector
                # A sector has the bytes of some moment: once one write of it is missing, so are the later ones.
                if sector in old or self.draw.random() >= self.share:
                    old.add(sector)
                elif piece.offset < len(content):
                    apply(content, Write(piece.offset, piece.data[: len(content) - piece.offset]))
        return content

    def pieces(self, write: Write) -> Iterator[Write]:
        """Yield the parts of a write by sectors."""
        at = write.offset
        while at < write.end:
            end = min(write.end, (at // self.sector + 1) * self.sector)
            yield Write(at, write.data[at - write.offset : end - write.offset])
            at = end

    # ---- names

    def changes_of(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of names that survive, in order."""
        way = self.way_of_one()
        if way == LOST:
            return []
        if way == KEPT:
            return list(changes)
        if way == PREFIX:
            return list(changes[: self.draw.randrange(len(changes) + 1)])
        missing: set[tuple[int, str]] = set()
        survivors = []
        for change in changes:
            if missing & change.keys or self.draw.random() >= self.share:
                missing |= change.keys
            else:
                survivors.append(change)
        return survivors
