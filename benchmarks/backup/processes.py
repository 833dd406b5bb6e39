"""Processes of a run: pinned to a CPU from their start, and ended in any case."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
PATIENCE = 10.0
"""Seconds that a process gets to end by itself."""


class ProcessFailed(RuntimeError):
    """Raised if a process failed; the text holds its error output."""


@dataclass
class Child:
    """A Python module that runs as a program."""

    module: str
    process: subprocess.Popen[str]
    errors: IO[str]

    def line(self) -> str:
        """Read the next line that the process prints. Raises: ProcessFailed if the process has ended instead."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise self._failed()
        return line.strip()

    def end(self) -> str:
        """Ask the process to end. Returns: its remaining output."""
        self.process.terminate()
        try:
            return self.process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0]

    def outcome(self) -> tuple[Any, float]:
        """Wait for the end of a process that prints JSON.

        Returns: the value, and the CPU seconds of the whole process. Raises: ProcessFailed.
        """
        assert self.process.stdout
        text = self.process.stdout.read()
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode:
            raise self._failed()
        return json.loads(text), used.ru_utime + used.ru_stime

    def _failed(self) -> ProcessFailed:
        if self.process.poll() is None:
            self.end()
        self.errors.seek(0)
        said = self.errors.read().strip()
        return ProcessFailed(f"{self.module} broke off (exit status {self.process.returncode}): {said}")


@contextmanager
def running(module: str, *arguments: object, cpu: int | None = None) -> Iterator[Child]:
    """Run a module while the block runs."""
    line = [sys.executable, "-m", module, *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as errors:
        with _on(cpu):
            process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
        with process:
            try:
                child = Child(module, process, errors)
                yield child
                if process.poll() is None:
                    child.end()
            finally:
                process.kill()  # needed after an error in the block; no-op if the process has ended


@contextmanager
def _on(cpu: int | None) -> Iterator[None]:
    """Pin processes started in the block to one CPU, with all their threads; None: to no CPU."""
    if cpu is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
