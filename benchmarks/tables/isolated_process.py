"""Runs an experiment in a new process and process group. At the end, all processes of the group are killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GRACE = 2.0
"""Seconds that an interrupted experiment has to clean up."""


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM if all of them are zombies
        os.killpg(group, signal.SIGKILL)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Interrupt the process after an error in the block. In any case, kill the rest of its group at the end."""
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
    """Handle SIGTERM (for example of `timeout`) and SIGHUP (of a closed terminal) like Ctrl-C."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(module: str, folder: Path, quick: bool) -> int:
    """Measure. Returns: the exit status. The experiment writes its messages to the standard error."""
    command = [sys.executable, "-m", "benchmarks.tables.child", module, str(folder), *(["--quick"] if quick else [])]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)
    with _ended(process):
        return process.wait()
