"""Programs in their own processes, for tests of how a process runs, is interrupted, forks and ends."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time

ROOT = pathlib.Path(__file__).parents[2]
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # with the path of make test-kqueue
PATIENCE = 60
"""Seconds after which a hanging program is killed. With twenty processes per core, a program takes 15 s to start."""


@dataclasses.dataclass
class Outcome:
    """The exit status and the output of a program."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The printed lines."""
        return self.out.splitlines()


class Program:
    """A started program, whose output goes to pipes."""

    def __init__(self, code: str, *options: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", *options, "-c", textwrap.dedent(code)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PATH, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupt_at(self, line: str, number: int = signal.SIGINT, *, asleep: bool = False) -> Program:
        """Send a signal once the program has printed ``line``. ``asleep``: wait until the main thread sleeps."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{line}\n", self.outcome().err
        if asleep:
            self.wait_asleep()
        self.process.send_signal(number)
        return self

    def wait_asleep(self) -> None:
        """Wait until the main thread has slept for longer than it waits for the interpreter lock."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        sleeps = 0
        while sleeps < 20:
            time.sleep(0.001)
            sleeps = sleeps + 1 if not stat.exists() or stat.read_text().rpartition(") ")[2][0] in "SZ" else 0

    def outcome(self) -> Outcome:
        """Wait for the end of the program."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(
                self.process.pid, signal.SIGABRT
            )  # also its children; with -X faulthandler they print their stacks
            out, err = self.process.communicate()
            raise AssertionError(f"the program hangs; it has written\n{out}\n{err}") from None
        return Outcome(self.process.returncode, out, err)


def run(code: str, *options: str, **environment: str) -> Outcome:
    """Run a program to its end."""
    return Program(code, "-X", "faulthandler", *options, **environment).outcome()


def prints(code: str, *options: str, **environment: str) -> list[str]:
    """Run a program, and return the lines that it prints. Raises: AssertionError if it fails or writes to stderr."""
    outcome = run(code, *options, **environment)
    assert (outcome.status, outcome.err) == (0, ""), outcome
    return outcome.lines
