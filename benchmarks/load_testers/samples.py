"""One sample: so many users of a load tester, in a process of its own on one CPU.

`python -m benchmarks.load_testers.samples RIVAL URL USERS PAUSE RAMP SECONDS [CPU]` prints it as JSON.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import raise_file_limit

RIVALS = {
    "dhaga": ("on_dhaga", "requests"),
    "HttpUser": ("on_locust", "HttpUser"),
    "dhaga light": ("on_dhaga", "light"),
    "FastHttpUser": ("on_locust", "FastHttpUser"),
}
"""Each with its module and the kind of client: that of `requests` first, then the lighter one."""

PATIENCE = 30.0  # seconds that a sample may take beyond its own
TRIES = 2


@dataclass(frozen=True)
class Work:
    """What users do: get a page, wait, and get it again, for so long after all have come."""

    users: int
    pause: float
    ramp: float
    seconds: float


@dataclass(frozen=True)
class Sample:
    """What came of it: requests by the second and by the CPU second, and latencies, the bytes that each user adds."""

    requests: int
    failed: int
    seconds: float
    cpu: float
    p50: float
    p99: float
    memory: float

    @property
    def rate(self) -> float:
        """Return requests a second."""
        return self.requests / self.seconds

    @property
    def rate_by_cpu(self) -> float:
        """Return requests a second of the tester's CPU time."""
        return self.requests / self.cpu

    @property
    def busy(self) -> float:
        """Return the share of the CPU that the tester took."""
        return self.cpu / self.seconds


class Meter:
    """What a process has used between two moments."""

    def __init__(self) -> None:
        self.began, self.cpu_before = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Return the seconds, and those of the CPU."""
        return time.perf_counter() - self.began, time.process_time() - self.cpu_before


def resident() -> float:
    """Return the memory that this process holds, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> float:
    """Return the most that it has held, in bytes; that of getrusage is the parent's, if that held more."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024


def sample(rival: str, url: str, work: Work, cpu: int | None) -> Sample:
    """Run one in a fresh process, on one CPU; again if nothing was answered, as when a busy machine let no user run.

    Raises: RuntimeError with its last words.
    """
    numbers = (work.users, work.pause, work.ramp, work.seconds, *([] if cpu is None else [cpu]))
    command = [sys.executable, "-m", "benchmarks.load_testers.samples", rival, url, *map(str, numbers)]
    for _ in range(TRIES):
        found = _printed(command, work.ramp + work.seconds + PATIENCE)
        if found.requests > found.failed:
            return found
    raise RuntimeError(f"{rival}, {work}: nothing was answered, {found.failed} requests failed")


def _printed(command: list[str], patience: float) -> Sample:
    """Return what a process prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=patience)
        finally:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"{command[3]}: {err.strip() or f'exit status {process.returncode}'}")
    return Sample(**json.loads(out))


def main() -> None:
    """Measure one in this process."""
    rival, url, users, pause, ramp, seconds, *cpu = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if cpu:
        os.sched_setaffinity(0, {int(cpu[0])})
    raise_file_limit()
    module, client = RIVALS[rival]
    work = Work(int(users), float(pause), float(ramp), float(seconds))
    measure = importlib.import_module(f"benchmarks.load_testers.{module}").measure
    print(json.dumps(asdict(measure(url, client, work))), flush=True)
    os._exit(0)  # users who are still asking are not waited for


if __name__ == "__main__":
    main()
