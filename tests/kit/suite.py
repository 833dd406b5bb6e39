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

from tests.kit.journal import ASKED, TEST_SECONDS, entries
from tests.kit.surroundings import ignored_signals

DEATHS = 3
"""Processes that may die before the rest is left: each may have waited for ``journal.TEST_SECONDS``."""

LONG_SECONDS = 2
"""A test that takes longer says why, by the marker ``long``; otherwise the run names it at its end."""

END_SECONDS = 90
"""For which a process may live on after its last test. pytest also removes the folders of earlier runs then: by 20 s a
run was killed on a busy machine that had passed.
"""

ASK_AT = 0.8
"""The share of a test's time after which its process is asked where it stands."""

OPTIONS = ("-p", "tests.kit.journal", "-o", "faulthandler_timeout=0", "--continue-on-collection-errors")
NO_TESTS = 5
"""pytest's status where nothing was left to run."""

BAD = ("failed", "error", "hung", "died")
ELSEWHERE = re.compile(r'File ".*/(_pytest|pluggy|pytest)/|File "<frozen runpy>')
"""Lines of a dump that are the same wherever a test hangs."""

FRAME_ELSEWHERE = re.compile(
    r"^ +\S*(/(_pytest|pluggy|pytest)/\S+|<frozen runpy>):\d+ in .*\n(?! +\S+:\d+ in ).*\n", re.MULTILINE
)
"""The same in a dump of Dhaga's: a frame and its source line."""


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
        self.stands = ""
        self.undone: list[str] = []
        self.long: list[str] = []

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
        # The tests heed signals again (see surroundings.py): those meant for whoever started this must not reach them.
        with subprocess.Popen(command, start_new_session=bool(ignored_signals())) as process:
            try:
                while process.poll() is None:
                    time.sleep(0.1)
                    self.ask(process)
                return process.returncode
            except BaseException:
                process.kill()
                raise

    def ask(self, process: subprocess.Popen[bytes]) -> None:
        """Have the process write where its dhagas stand, once, if its test is about to count as hung.

        A process that has run all tests, and does not end, waits for a thread that a failed one has left: kill it.
        """
        silent = time.time() - self.journal.stat().st_mtime if self.journal.exists() else 0
        if silent > ASK_AT * self.test_seconds():
            process.send_signal(ASKED)
        elif silent > END_SECONDS and b'\n{"end"' in self.journal.read_bytes()[-40:]:
            process.kill()

    def test_seconds(self) -> float:
        """Return after how many seconds a test counts as hung."""
        option = "--test-seconds"
        return float(self.arguments[self.arguments.index(option) + 1]) if option in self.arguments else TEST_SECONDS

    def read_journal(self) -> bool:
        """Take in what is new in the journal; whether the process has come to its end."""
        ended = False
        for entry in (fresh := entries(self.journal)[self.read :]):
            self.current = entry.get("test", self.current)
            self.undone = entry.get("undone", self.undone)
            self.stands = entry.get("stands", self.stands)
            ended = "end" in entry
            if is_long(**entry):
                self.long.append("LONG {name} - {seconds:.1f} s, {cpu:.1f} s of CPU".format(**entry))
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
        print(
            *self.texts, f"\n== {self.current} {outcome}", shortened(self.stands), shortened(dump), sep="\n", flush=True
        )
        self.texts.clear()
        self.stands = ""

    def tell(self) -> None:
        """Print what failed, and how many tests came to what."""
        print("", *self.long, *self.faults, sep="\n")
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        seconds = time.monotonic() - self.began
        started = f", started with {', '.join(self.undone)}" if self.undone else ""
        where = f"on Python {platform.python_version()}"
        print(f"== {counts or 'nothing run'} in {seconds:.0f} s {where}{started}", flush=True)


def is_long(seconds: float = 0, cpu: float = 0, why: str = "", **_: object) -> bool:
    """Return whether a test takes long without a reason. Where others want the cores, only its CPU time counts."""
    busy = os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    return not why and (cpu if busy else seconds) > LONG_SECONDS


def headline(outcome: str, name: str, text: str) -> str:
    """Say on one line what became of a test, and why."""
    why = re.findall(r"^E +(.*)", text, re.MULTILINE)
    return f"{outcome.upper()} {name}{f' - {why[0][:200]}' if why else ''}"


def shortened(dump: str) -> str:
    """Leave out of a dump what is the same wherever a test hangs."""
    lines = FRAME_ELSEWHERE.sub("", dump).splitlines()
    return "".join(f"{line}\n" for line in lines if line and not ELSEWHERE.search(line))


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
