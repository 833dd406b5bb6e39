"""The survival of unsynced writes and names at a kill, drawn from the seed.

POSIX promises nothing about unsynced data. Disks and file systems write it at any time and in any order. A write can be
cut: after a drawn byte, or by a loss of some of its sectors. In the second case each sector is completely old or
completely new. A change of names survives completely or not at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ._inodes import Change, File, Resize, Write, apply, resize

DRAWN, LOST, KEPT = "drawn", "lost", "kept"
CHOICES = (DRAWN, LOST, KEPT)
"""The choices that a kill has for unsynced writes."""

PREFIX, SCATTERED = "prefix", "scattered"
"""Ways to survive: in order up to a drawn point, or each sector and each name by a draw of its own."""

WAYS = (LOST, KEPT, PREFIX, SCATTERED)


def check_unsynced(unsynced: object) -> None:
    """Check the choice for unsynced writes. Raises: ValueError."""
    if unsynced not in CHOICES:
        raise ValueError(f"unsynced is {', '.join(map(repr, CHOICES))}, and not {unsynced!r}")


class Survival:
    """The draws of one kill. ``sector``: the number of bytes of a sector."""

    def __init__(self, draw: random.Random, sector: int, unsynced: str = DRAWN) -> None:
        self.draw = draw
        self.sector = sector
        # Two of three kills draw one way for all files and names, because a power cut can come before all writes or
        # after them. The other kills draw a way for each file, and one for the names.
        self.way = draw.choice((*WAYS, DRAWN, DRAWN)) if unsynced == DRAWN else unsynced
        self.share = draw.random()

    def way_of_one(self) -> str:
        return self.draw.choice(WAYS) if self.way == DRAWN else self.way

    # ---- contents

    def content_of(self, file: File) -> tuple[bytearray, str]:
        """Return the surviving content of a file, and the way in which the content survives."""
        way = self.way_of_one()
        if way == LOST:
            return bytearray(file.durable), way
        if way == KEPT:
            return file.content(), way
        return (self.prefix_of(file) if way == PREFIX else self.scattered(file)), way

    def prefix_of(self, file: File) -> bytearray:
        """Return the content after a drawn number of steps and a part of the next write.

        The part ends at the beginning of a sector or at any byte.
        """
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
        """Return the content with a drawn selection of the sectors of each write.

        Only the first steps, up to a drawn number, change the size of the file.
        """
        content = bytearray(file.durable)
        sizes = self.draw.randrange(len(file.steps) + 1)
        old: set[int] = set()
        for number, step in enumerate(file.steps):
            grows = number < sizes
            if isinstance(step, Resize):
                if not grows:
                    # Later writes go to blocks that the file does not have without this change of size.
                    break
                resize(content, step.size)
                continue
            if grows:
                resize(content, max(len(content), step.end))
            for piece in self.pieces(step):
                sector = piece.offset // self.sector
                # A sector's bytes are from one moment: if one write to the sector is lost, all later ones are lost.
                if sector in old or self.draw.random() >= self.share:
                    old.add(sector)
                elif piece.offset < len(content):
                    apply(content, Write(piece.offset, piece.data[: len(content) - piece.offset]))
        return content

    def pieces(self, write: Write) -> Iterator[Write]:
        """Yield the parts of a write, one for each sector."""
        at = write.offset
        while at < write.end:
            end = min(write.end, (at // self.sector + 1) * self.sector)
            yield Write(at, write.data[at - write.offset : end - write.offset])
            at = end

    # ---- names

    def changes_of(self, changes: Sequence[Change]) -> list[Change]:
        """Return the surviving changes of names, in order."""
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
