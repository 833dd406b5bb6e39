"""The log: ``append`` returns when the record is durable. One thread writes the records of all callers together.

Each append is a call through an ``OffloadPool`` of one thread. Whichever call comes first writes all records that have
arrived by then, with one system call; the calls behind it find theirs written. So while the disk is busy with one
batch, the next one gathers, and nothing else is needed: no leader, no timer, no lock.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, Self, TypeVar

import dhaga

from .records import MAX_PAYLOAD, Broken, Record, WalError, packed
from .recovery import Found, read_segment, recover
from .segments import Segment, first_of, hold, segments_in, sync_directory

P = ParamSpec("P")
R = TypeVar("R")

SEGMENT_BYTES: Final = 64 << 20
"""Size from which on a segment is followed by a new one. Recovery and replay hold one segment in memory."""

BATCH_BYTES: Final = 4 << 20
"""Size from which on a batch takes no more records, so that the first of many large records does not wait for all."""


class Entry:
    """A record on its way: its number, once it is durable."""

    __slots__ = ("payload", "sequence")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.sequence = 0


class WriteAheadLog:
    """A log in a directory of its own, made if there is none; a torn end is cut off.

    ``found`` tells what was in it. Parks: ``offload NAME``, while it is read. Raises: InUse, Corrupt, OSError.
    """

    def __init__(self, directory: str | os.PathLike[str], segment_bytes: int = SEGMENT_BYTES) -> None:
        self.directory = Path(directory)
        self.segment_bytes = segment_bytes
        self.arrived: deque[Entry] = deque()
        self.fault: BaseException | None = None
        self.closed = self.ended = False
        self.pid = os.getpid()
        self.pool = dhaga.OffloadPool(f"wal {self.directory.name}", threads=1)
        self.lock = -1
        self.segment: Segment
        try:
            self.found = self.pool.finish(self.open)
        except BaseException:
            self.pool.shutdown()
            raise
        self.next = self.found.next

    def __repr__(self) -> str:
        state = f"broken: {self.fault}" if self.fault else "closed" if self.closed else f"{len(self.arrived)} arrived"
        return f"<WriteAheadLog {self.directory}, next record {self.next}, {state}>"

    def append(self, payload: bytes, timeout: float | None = None) -> int:
        """Add a record. Returns: its sequence number, when it is durable.

        Parks: until then (``offload wal NAME``). From: a dhaga of any scheduler, any thread. A cancel or the timeout
        lets the caller go at once; a record that the disk has been given by then may be in the log all the same.
        Raises: TimeoutError; Broken, if this or an earlier write failed; WalError once closed; TypeError, ValueError.
        """
        entry = Entry(checked(payload))
        self.refuse_new()
        self.arrived.append(entry)
        try:
            if timeout is None:
                return self.call(self.commit, entry)
            with dhaga.Timeout(timeout):
                return self.call(self.commit, entry)
        except BaseException:
            self.withdraw(entry)
            raise

    def replay(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Give the records that are durable now, with numbers above ``after``, a segment read at a time.

        Parks: for each of them. Raises: Corrupt; WalError if a checkpoint drops one before it is read.
        """
        until = self.next
        for path in self.call(segments_in, self.directory):
            for record in self.call(records_of, path):
                if after < record.sequence < until:
                    yield record.sequence, record.payload

    def checkpoint(self, sequence: int) -> int:
        """Say that records up to this number are needed no more. Returns: how many segments were dropped.

        Whole segments go, the oldest first, never the last one. Parks: until they are gone for good.
        """
        self.refuse_new()
        return self.call(self.drop, sequence)

    def close(self) -> None:
        """Write what is on its way, and let go of the directory; any number of times. Parks: until that is done."""
        try:
            if not self.closed:
                self.closed = True
                self.pool.finish(self.end)
        finally:
            self.pool.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- in the caller

    def call(self, fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Make a call in the log's thread. Raises: WalError once closed."""
        try:
            return self.pool.offload(fn, *args, **kwargs)
        except RuntimeError:
            if self.closed:
                raise self.over() from None
            raise

    def withdraw(self, entry: Entry) -> None:
        """Withdraw a record, unless it is too late."""
        try:
            self.arrived.remove(entry)
        except ValueError:
            pass

    def refuse(self) -> None:
        """Raises: WalError, Broken."""
        if self.pid != os.getpid():
            raise WalError(f"the log in {self.directory} belongs to the parent process, which holds its directory")
        if self.fault is not None:
            raise Broken(f"the log in {self.directory} could not be written: {self.fault}") from self.fault
        if self.ended:
            raise self.over()

    def refuse_new(self) -> None:
        """Raises: WalError, Broken."""
        self.refuse()
        if self.closed:
            raise self.over()

    def over(self) -> WalError:
        """Say that the log is closed."""
        return WalError(f"the log in {self.directory} is closed")

    # ---- in the log's own thread: one call at a time

    def open(self) -> Found:
        """Hold the directory and read what is there."""
        self.lock = hold(self.directory)
        try:
            self.segment, found = recover(self.directory)
        except BaseException:
            os.close(self.lock)
            raise
        return found

    def commit(self, entry: Entry) -> int:
        """Write a record, and all that have arrived; in most calls it is written already. 0: it was withdrawn."""
        while not entry.sequence:
            self.refuse()
            batch = self.gather()
            if not batch:
                return 0
            self.write_or_break(batch)
        return entry.sequence

    def gather(self) -> list[Entry]:
        """Take what has arrived, as far as it fits a batch."""
        batch: list[Entry] = []
        room = BATCH_BYTES
        try:
            while room > 0:
                batch.append(self.arrived.popleft())
                room -= len(batch[-1].payload)
        except IndexError:  # that was all
            pass
        return batch

    def write_or_break(self, batch: list[Entry]) -> None:
        """Write a batch. After an error, never write again: a second fsync could succeed although data is lost.

        The system reports a failed write only once, and may have dropped the data by then.
        """
        try:
            self.write(batch)
        except BaseException as error:
            self.fault = error
            self.arrived.clear()

    def write(self, batch: list[Entry]) -> None:
        """Make a batch durable, then say so."""
        if self.segment.size >= self.segment_bytes:
            self.rotate()
        first, salt = self.next, self.segment.header.salt
        numbered = list(enumerate(batch, first))
        self.segment.write(b"".join(packed(salt, number, first, entry.payload) for number, entry in numbered))
        self.next += len(batch)
        for number, entry in numbered:
            entry.sequence = number

    def rotate(self) -> None:
        """Go on in a new segment; all in the old one is durable."""
        former, self.segment = self.segment, Segment.create(self.directory, self.next)
        former.close()

    def drop(self, sequence: int) -> int:
        """Remove the segments that hold no record above ``sequence``."""
        paths = segments_in(self.directory)
        needless = [path for path, later in pairwise(paths) if first_of(later) <= sequence + 1]
        for path in needless:  # the oldest first, and each for good before the next: a crash in between leaves no gap
            path.unlink()
            sync_directory(self.directory)
        return len(needless)

    def end(self) -> None:
        """Write what is left of appends under way, unless they are the parent process's, and let go."""
        try:
            while self.fault is None and self.pid == os.getpid() and (batch := self.gather()):
                self.write_or_break(batch)
        finally:
            self.ended = True
            self.segment.close()
            os.close(self.lock)


def checked(payload: bytes) -> bytes:
    """Return the payload as bytes that stay as they are. Raises: TypeError, ValueError."""
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise TypeError(f"a record is bytes, not {payload!r}")
    kept = bytes(payload)
    if len(kept) > MAX_PAYLOAD:
        raise ValueError(f"a record has at most {MAX_PAYLOAD} bytes, not {len(kept)}")
    return kept


def records_of(path: Path) -> list[Record]:
    """Read the records of a segment, which may be gone by a checkpoint meanwhile. Raises: Corrupt."""
    try:
        return read_segment(path).records
    except FileNotFoundError:
        raise WalError(f"{path} was dropped by a checkpoint before it was read") from None
