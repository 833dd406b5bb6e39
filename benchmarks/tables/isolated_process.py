"""Run an experiment in a process and a process group of its own, of which nothing is left when it has ended."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GRACE = 2.0
"""Seconds that an interrupted experiment has to put its things away."""


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM where all of them are zombies
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Interrupt it if the block is left by an error; kill what is left of its group in any case."""
    try:
        yield
    except BaseException:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        raise
    finally:
        _kill(process.pid)
        process.wait()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM, as from `timeout`, and SIGHUP, as from a terminal that closes, for Ctrl-C."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(module: str, folder: Path, quick: bool) -> int:
    """Measure. Returns: the exit status; what the experiment tells is on the standard error."""
    command = [sys.executable, "-m", "benchmarks.tables.child", module, str(folder), *(["--quick"] if quick else [])]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    with _ended(process):
        return process.wait()
