"""The times at which tasks ended, in a file that all processes of a worker and the experiment map into memory."""

import mmap
import struct
import time
from pathlib import Path

PLACE = struct.Struct("d")
MOST = 20_000
"""Number of tasks that have a place in the file."""


class CompletionTimes:
    """One place for each task. A place is empty until its task is done."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(MOST * PLACE.size))
        with path.open("r+b") as file:
            self.places = mmap.mmap(file.fileno(), MOST * PLACE.size)

    def set(self, number: int) -> None:
        """Mark a task as done now, by the clock that all processes share."""
        PLACE.pack_into(self.places, number * PLACE.size, time.monotonic())

    def times(self, count: int) -> list[float]:
        """Return, sorted, the end times of the first ``count`` tasks, as far as they are done."""
        return sorted(time for (time,) in PLACE.iter_unpack(self.places[: count * PLACE.size]) if time)

    def clear(self) -> None:
        """Empty all places."""
        self.places[:] = bytes(len(self.places))
