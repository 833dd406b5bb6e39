"""When each task was done: a place in a file for each, which all processes of a worker and the experiment share."""

import mmap
import struct
import time
from pathlib import Path

PLACE = struct.Struct("d")
MOST = 20_000
"""Tasks that have a place."""


class CompletionTimes:
    """A place for each task, empty until it is done."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(MOST * PLACE.size))
        with path.open("r+b") as file:
            self.places = mmap.mmap(file.fileno(), MOST * PLACE.size)

    def set(self, number: int) -> None:
        """Mark a task as done now, by the clock that all processes share."""
        PLACE.pack_into(self.places, number * PLACE.size, time.monotonic())

    def times(self, count: int) -> list[float]:
        """Return when those were done that are done, of the first so many tasks, in order."""
        return sorted(time for (time,) in PLACE.iter_unpack(self.places[: count * PLACE.size]) if time)

    def clear(self) -> None:
        """Empty all places."""
        self.places[:] = bytes(len(self.places))
