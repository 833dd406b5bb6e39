"""Programs in a Python of their own: for what shows only in how a process lives, is interrupted, forks and ends."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # with the one of make test-kqueue
PATIENCE = 60
"""Seconds after which a program that hangs is killed. Where twenty processes want each core, one takes 15 to start."""


@dataclasses.dataclass
class Outcome:
    """How a program has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it has printed."""
        return self.out.splitlines()


class Program:
    """A program that has been started. What it writes goes to pipes."""

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

    def interrupt_at(self, line: str, number: int = signal.SIGINT) -> Program:
        """Send a signal once the program has printed ``line``."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{line}\n", self.outcome().err
        self.process.send_signal(number)
        return self

    def outcome(self) -> Outcome:
        """Wait for the end of the program."""
        try:
            out, err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(
                self.process.pid, signal.SIGABRT
            )  # its children, too; with -X faulthandler they say where they are
            out, err = self.process.communicate()
            raise AssertionError(f"the program hangs; it has written\n{out}\n{err}") from None
        return Outcome(self.process.returncode, out, err)


def run(code: str, *options: str, **environment: str) -> Outcome:
    """Run a program to its end."""
    return Program(code, "-X", "faulthandler", *options, **environment).outcome()


def prints(code: str, *options: str, **environment: str) -> list[str]:
    """Run a program that must end well and write nothing to its standard error; return the lines it prints."""
    outcome = run(code, *options, **environment)
    assert (outcome.status, outcome.err) == (0, ""), outcome
    return outcome.lines
