"""Reading a log: what is in it, where it ends, and whether that end is torn or the log is damaged.

A crash tears the end: any part of the batch that was being written may have reached the disk, in any order, and none of
it was acknowledged. Recovery cuts this batch off. Everything else is damage: a wrong record in an older segment, or a
wrong record that was durable according to a later batch. Recovery then stops, changes nothing, and names the place.

Damage to the last batch cannot be distinguished from a crash during its write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .records import HEADER_SIZE, Corrupt, Header, Record, records_after, records_in
from .segments import Segment, drop_unfinished, first_of, segments_in, sync_directory


@dataclass(frozen=True)
class Contents:
    """What one segment holds."""

    path: Path
    header: Header
    records: list[Record]
    size: int  # of the file

    @property
    def end(self) -> int:
        """Where the last right record ends."""
        return self.records[-1].end if self.records else HEADER_SIZE

    @property
    def torn(self) -> int:
        """How many bytes come after that."""
        return self.size - self.end

    @property
    def next(self) -> int:
        """The sequence number that follows."""
        return self.header.first + len(self.records)


@dataclass(frozen=True)
class Found:
    """What a whole log holds: its sequence numbers, and what is torn at its end."""

    first: int
    next: int
    segments: int
    torn: int
    torn_at: str

    def __str__(self) -> str:
        count = self.next - self.first
        numbers = f", {self.first} to {self.next - 1}" if count else ""
        torn = f"; {self.torn} bytes are torn, at {self.torn_at}" if self.torn else ""
        return f"{count} records{numbers}, in {self.segments} segments{torn}"


def read_segment(path: Path) -> Contents:
    """Read one segment up to its first wrong record. Raises: Corrupt, if a later record says that one was right."""
    data = path.read_bytes()
    header = Header.read(data, path)
    if header.first != first_of(path):
        raise Corrupt(f"{path} begins with record {header.first}, which its name does not say")
    contents = Contents(path, header, list(records_in(data, header)), len(data))
    for witness in records_after(data, contents.end, header):
        if witness.batch > contents.next:
            raise Corrupt(
                f"{path} is damaged at offset {contents.end}: there record {contents.next} should be, which was "
                f"durable before record {witness.sequence} at offset {witness.offset} was written"
            )
    return contents


def read_log(directory: Path) -> Iterator[Contents]:
    """Read one segment after the other. Raises: Corrupt; only the last one may have a torn end."""
    paths = segments_in(directory)
    following: int | None = None
    for path in paths:
        contents = read_segment(path)
        if following is not None and contents.header.first != following:
            raise Corrupt(f"records {following} to {contents.header.first - 1} are missing before {path}")
        if contents.torn and path != paths[-1]:
            raise Corrupt(f"{path} is damaged at offset {contents.end}: it is not the last segment, so it was durable")
        following = contents.next
        yield contents


def verify(directory: Path) -> Found:
    """Read all of a log and change nothing. Raises: Corrupt."""
    first = following = 1
    count, torn, torn_at = 0, 0, ""
    for contents in read_log(directory):
        first = contents.header.first if not count else first
        following, count, torn = contents.next, count + 1, contents.torn
        torn_at = f"{contents.path} offset {contents.end}"
    return Found(first, following, count, torn, torn_at)


def recover(directory: Path) -> tuple[Segment, Found]:
    """Read all of a log, cut a torn end off, and open its last segment. From: who holds the log. Raises: Corrupt."""
    drop_unfinished(directory)
    found = verify(directory)
    if not found.segments:
        return Segment.create(directory, found.next), found
    last = read_segment(segments_in(directory)[-1])
    segment = Segment(last.path, last.header, last.size)
    segment.cut(last.end)  # syncs, torn or not: what is read here is built upon, and must not vanish later
    sync_directory(directory)  # nor the name of the last segment, whose maker may have been killed before it synced it
    return segment, found
