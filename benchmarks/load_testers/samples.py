"""One sample: a number of users of a load tester, in a new process on one CPU.

`python -m benchmarks.load_testers.samples RIVAL URL USERS PAUSE RAMP SECONDS [CPU]` prints the sample as JSON.
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
"""For each rival, its module and its kind of client: first the client that uses `requests`, then the lighter one."""

PATIENCE = 30.0  # seconds that a sample may take beyond the planned seconds
TRIES = 2


@dataclass(frozen=True)
class Work:
    """The work of the users: get a page and wait, repeatedly. ``seconds``: the time after all users have started."""

    users: int
    pause: float
    ramp: float
    seconds: float


@dataclass(frozen=True)
class Sample:
    """The result: requests per second and per CPU second, latencies, and the bytes that each user adds."""

    requests: int
    failed: int
    seconds: float
    cpu: float
    p50: float
    p99: float
    memory: float

    @property
    def rate(self) -> float:
        """Return requests per second."""
        return self.requests / self.seconds

    @property
    def rate_by_cpu(self) -> float:
        """Return requests per second of the tester's CPU time."""
        return self.requests / self.cpu

    @property
    def busy(self) -> float:
        """Return the fraction of the CPU that the tester used."""
        return self.cpu / self.seconds


class Meter:
    """Measures the time, and the CPU time of this process, between two moments."""

    def __init__(self) -> None:
        self.began, self.cpu_before = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Return the seconds that have passed, and the CPU seconds that were used."""
        return time.perf_counter() - self.began, time.process_time() - self.cpu_before


def resident() -> float:
    """Return the memory that this process holds, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak() -> float:
    """Return the maximum of this process's memory, in bytes. (getrusage may return the parent's maximum.)"""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024


def sample(rival: str, url: str, work: Work, cpu: int | None) -> Sample:
    """Take a sample in a new process on one CPU. Repeat it if there was no answer, as on a very busy machine.

    Raises: RuntimeError with the last output of the process.
    """
    numbers = (work.users, work.pause, work.ramp, work.seconds, *([] if cpu is None else [cpu]))
    command = [sys.executable, "-m", "benchmarks.load_testers.samples", rival, url, *map(str, numbers)]
    for _ in range(TRIES):
        found = _printed(command, work.ramp + work.seconds + PATIENCE)
        if found.requests > found.failed:
            return found
    raise RuntimeError(f"{rival}, {work}: nothing was answered, {found.failed} requests failed")


def _printed(command: list[str], patience: float) -> Sample:
    """Return the sample that a process prints."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=patience)
        finally:
            process.kill()
    if process.returncode:
        raise RuntimeError(f"{command[3]}: {err.strip() or f'exit status {process.returncode}'}")
    return Sample(**json.loads(out))


def main() -> None:
    """Take a sample in this process."""
    rival, url, users, pause, ramp, seconds, *cpu = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if cpu:
        os.sched_setaffinity(0, {int(cpu[0])})
    raise_file_limit()
    module, client = RIVALS[rival]
    work = Work(int(users), float(pause), float(ramp), float(seconds))
    measure = importlib.import_module(f"benchmarks.load_testers.{module}").measure
    print(json.dumps(asdict(measure(url, client, work))), flush=True)
    os._exit(0)  # do not wait for users with a request in progress


if __name__ == "__main__":
    main()
