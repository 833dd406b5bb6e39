"""What the process has of the machine: memory, file descriptors, threads; and whether memory is flat."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
from pathlib import Path
from statistics import median

import dhaga
from dhaga import testing
from dhaga._kernel.process import wakeup_detour
from dhaga._kernel.run.attachment import schedulers

MB = 1 << 20
STATM = Path("/proc/self/statm")

JUDGED = 30.0
"""Seconds that a run must take for its memory to be judged: in less than that it is still warming up."""

FLAT_MB = 5.0
"""By how many MB the last third of a run may be above the second, by the medians of their samples. In nine runs of 30
to 90 s in which nothing leaked it was between 0.6 MB below and 1.4 MB above. In 60 s that finds a leak of 300 bytes in
each echo, request, call and scope, in 600 one of 30.
"""


def memory() -> int:
    """Return how many bytes of memory the process has in use."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    kilobytes = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True).stdout
    return int(kilobytes) * 1024


def live_dhagas() -> int:
    """Return how many dhagas have not ended. From: any thread."""
    return sum(len(scheduler.live) for scheduler in list(schedulers))


def fds_of_run() -> set[int]:
    """Return the open file descriptors, but for the pipe that the first signal within a package of C makes for good."""
    return testing.open_fds() - {
        end.fileno() for pipe in wakeup_detour.pipes for end in (pipe.read_end, pipe.write_end)
    }


def what_is(fd: int) -> str:
    """Say what a file descriptor is of, and of a socket between whom."""
    try:
        kind = os.readlink(f"/dev/fd/{fd}")
    except OSError:  # closed meanwhile, or a system that has no links there
        return f"fd {fd}"
    if not kind.startswith("socket:"):
        return f"fd {fd} ({kind})"
    with socket.socket(fileno=os.dup(fd)) as sock:
        try:
            peer = sock.getpeername()
        except OSError as error:
            peer = error.strerror
        return f"fd {fd} ({kind}, {sock.getsockname()} - {peer})"


def dhagas_in_memory() -> int:
    """Return how many there are, ended or not."""
    gc.collect()
    return sum(issubclass(type(each), dhaga.Dhaga) for each in gc.get_objects())


class Memory:
    """The memory of a run, over time."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []

    def note(self, seconds: float) -> None:
        """Take a sample, so many seconds after the begin."""
        self.samples.append((seconds, memory()))

    def third(self, number: int, seconds: float) -> float:
        """Return the median, in MB, of one third of a run: 0, 1 or 2."""
        begin, end = number * seconds / 3, (number + 1) * seconds / 3
        return median(size for moment, size in self.samples if begin <= moment <= end) / MB

    def growth(self, seconds: float) -> float:
        """Return by how many MB the last third of a run is above the second. The first is for warming up."""
        return self.third(2, seconds) - self.third(1, seconds)

    def verdict(self, seconds: float) -> str | None:
        """Say what is wrong, if that is so."""
        if seconds < JUDGED or self.growth(seconds) <= FLAT_MB:
            return None
        thirds = ", ".join(f"{self.third(number, seconds):.1f}" for number in range(3))
        return (
            f"memory is not flat: {thirds} MB in the thirds of the run, at most {FLAT_MB} more are allowed in the last"
        )
