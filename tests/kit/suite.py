"""Run tests to the end, whatever hangs or dies, and say last what failed: ``python -m tests.kit.suite ARGUMENTS``.

Nothing can be relied on in a process of which one test hangs: it ends (``tests/kit/journal.py``), and another one runs
the tests that are left. The arguments are pytest's.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kit.journal import entries

DEATHS = 3
"""Processes that may die before the rest is left: each may have waited for ``journal.TEST_SECONDS``."""

OPTIONS = ("-p", "tests.kit.journal", "-o", "faulthandler_timeout=0", "--continue-on-collection-errors")
NO_TESTS = 5
"""pytest's status where nothing was left to run."""

BAD = ("failed", "error", "hung", "died")
ELSEWHERE = re.compile(r'File ".*/(_pytest|pluggy|pytest)/|File "<frozen runpy>')
"""Lines of a dump that are the same wherever a test hangs."""


class Suite:
    """One run of the tests, in as many processes as that takes."""

    def __init__(self, arguments: list[str], journal: Path) -> None:
        self.arguments = arguments
        self.journal = journal
        self.began = time.monotonic()
        self.counts = Counter[str]()
        self.faults: list[str] = []
        self.texts: list[str] = []
        self.read = 0
        self.current = ""

    def run(self) -> int:
        """Return the status to exit with."""
        status = 1
        for _ in range(DEATHS):
            status = self.run_process()
            if self.read_journal():
                break
            if not self.current:  # it has not come so far as to run a test
                return status or 1
            self.bury(status)
        bad = sum(self.counts[outcome] for outcome in BAD)
        return 1 if bad else 0 if status == NO_TESTS and self.current else status

    def run_process(self) -> int:
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--journal={self.journal}", *self.arguments]
        with subprocess.Popen(command) as process:
            try:
                return process.wait()
            except BaseException:
                process.kill()
                raise

    def read_journal(self) -> bool:
        """Take in what is new in the journal; whether the process has come to its end."""
        ended = False
        for entry in (fresh := entries(self.journal)[self.read :]):
            self.current = entry.get("test", self.current)
            ended = "end" in entry
            if "outcome" in entry:
                self.counts[entry["outcome"]] += 1
                if entry["outcome"] in BAD:
                    self.faults.append(headline(**entry))
                    self.texts.append(f"\n== {entry['name']}\n{entry['text']}")
        self.read += len(fresh)
        return ended

    def bury(self, status: int) -> None:
        """Note that a process has died, by the test that hung or killed it, and tell what it can tell no more."""
        dump = self.journal.read_text().rpartition("}\n")[2]
        outcome = "hung" if dump.startswith("Timeout") else "died"
        self.counts[outcome] += 1
        self.faults.append(headline(outcome, self.current, f"E   status {status}\n" if outcome == "died" else ""))
        print(*self.texts, f"\n== {self.current} {outcome}", shortened(dump), sep="\n", flush=True)
        self.texts.clear()

    def tell(self) -> None:
        """Print what failed, and how many tests came to what."""
        print("", *self.faults, sep="\n")
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        seconds = time.monotonic() - self.began
        print(f"== {counts or 'nothing run'} in {seconds:.0f} s on Python {platform.python_version()}", flush=True)


def headline(outcome: str, name: str, text: str) -> str:
    """Say on one line what became of a test, and why."""
    why = re.findall(r"^E +(.*)", text, re.MULTILINE)
    return f"{outcome.upper()} {name}{f' - {why[0][:200]}' if why else ''}"


def shortened(dump: str) -> str:
    """Leave out of a dump what is the same wherever a test hangs."""
    return "".join(f"{line}\n" for line in dump.splitlines() if line and not ELSEWHERE.search(line))


def terminated(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, terminated)
    if not sys.stdout.isatty():
        os.environ.setdefault("COLUMNS", "160")
    with tempfile.TemporaryDirectory() as directory:
        suite = Suite(arguments, Path(directory) / "journal")
        try:
            return suite.run()
        except SystemExit:
            suite.read_journal()
            suite.faults.append(headline("terminated", suite.current, ""))
            raise
        finally:
            suite.tell()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
