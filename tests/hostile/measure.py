"""How long an ordinary client waits, in quiet and beside an attack."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.targets import ROOT, Target

QUIET_SECONDS = 1.0
PAUSE = 0.005
FEWEST = 10
"""Answers of which one may be late."""

WARM_UP_SECONDS = 0.5
TARGET_SECONDS = 0.02
"""What an ordinary client's p99 is to be beside each attack, on a quiet machine."""

BOUND_SECONDS = 0.25
TIMES_QUIET = 20
"""What fails: one of ten answers that waits for longer than both. The defects it is to find made it 0.7 s and more. The
first is multiplied by the processes that would run, for each CPU: beside a soak and two suites it was 0.29 s.

On a busy machine it is 20 to 120 ms, and one answer of 20 may take half a second: the p99 is printed only.
"""


@dataclasses.dataclass
class Measured:
    """The waits of an ordinary client, in seconds."""

    target: str
    attack: str
    quiet: list[float]
    attacked: list[float]
    crowding: float

    @property
    def fails(self) -> bool:
        """Whether the client waited for too long."""
        return quantile(self.attacked, 0.9) > max(
            BOUND_SECONDS * max(1.0, self.crowding), TIMES_QUIET * p99(self.quiet)
        )

    def __str__(self) -> str:
        verdict = "FAILS" if self.fails else "misses 20 ms" if p99(self.attacked) > TARGET_SECONDS else ""
        return (
            f"{self.target:10} {self.attack:20} quiet p99 {p99(self.quiet) * 1000:7.1f} ms, attacked median "
            f"{quantile(self.attacked, 0.5) * 1000:7.1f}, p99 {p99(self.attacked) * 1000:7.1f}, worst "
            f"{max(self.attacked) * 1000:7.1f} of {len(self.attacked):4} {verdict}"
        ).rstrip()


def quantile(waits: list[float], share: float) -> float:
    return sorted(waits)[max(0, math.ceil(share * len(waits)) - 1)]


def p99(waits: list[float]) -> float:
    return quantile(waits, 0.99)


def runnable_per_cpu() -> float:
    """Return how many processes and threads of this machine would run now, for each CPU."""
    try:
        load = Path("/proc/loadavg").read_text()
    except OSError:  # not on Linux
        return 1.0
    return int(load.split()[3].partition("/")[0]) / (os.cpu_count() or 1)


def ask_as_ordinary_client(target: Target, address: tuple[str, int], seconds: float) -> tuple[list[float], float]:
    """Ask again and again for some seconds, ``FEWEST`` times at least; an answer may take 5 s, or those seconds.

    One answer of four was the worst of ten, and failed a busy machine. Returns: the waits, and the average of
    ``runnable_per_cpu``, seen once for each.
    """
    waits: list[float] = []
    crowding: list[float] = []
    end = time.monotonic() + seconds
    while len(waits) < FEWEST or time.monotonic() < end:
        crowding.append(runnable_per_cpu())
        began = time.monotonic()
        try:
            waits.append(target.ask(address, patience=max(5.0, seconds)))
        except TimeoutError:
            waits.append(time.monotonic() - began)
        time.sleep(PAUSE)
    return waits, sum(crowding) / len(crowding)


@contextlib.contextmanager
def attacking(attack: str, address: tuple[str, int]) -> Iterator[None]:
    """Attack for the time of a block, from a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.attacks", attack, address[0], str(address[1])],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        time.sleep(WARM_UP_SECONDS)
        yield
        assert process.poll() is None, f"the attack {attack} has ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(target: Target, attack: str, seconds: float, quiet_seconds: float = QUIET_SECONDS) -> Measured:
    """Attack a fresh server. Raises: AssertionError if it ends, answers wrongly or writes what is forbidden."""
    with target.running() as address:
        quiet, _ = ask_as_ordinary_client(target, address, quiet_seconds)
        with attacking(attack, address):
            attacked, crowding = ask_as_ordinary_client(target, address, seconds)
        target.ask(address)
    return Measured(target.name, attack, quiet, attacked, crowding)
