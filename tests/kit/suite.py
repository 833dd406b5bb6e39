"""Runs all tests, even if one hangs or dies, and lists the failures last: ``python -m tests.kit.suite ARGUMENTS``.

A process in which a test hangs is unreliable: it ends (``tests/kit/journal.py``), and another process runs the
remaining tests. The arguments are pytest's.

If ``DHAGA_RUN_AGAIN`` is set, as in CI, and only one or two tests fail, the suite runs each of them once more, alone. A
test that passes now is flaky: the run passes, and reports the test with its first failure, so that someone mends it.
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
from typing import NamedTuple

from tests.kit.journal import ASKED, TEST_SECONDS, entries
from tests.kit.surroundings import ignored_signals

AGAIN = 2
"""Maximum number of failed tests that run again. More failures have a common cause."""

DEATHS = 3
"""Number of processes that may die before the suite gives up. Each may have waited for ``journal.TEST_SECONDS``."""

LONG_SECONDS = 2
"""A longer test must give a reason with the marker ``long``. Otherwise the run names the test at its end."""

END_SECONDS = 90
"""Number of seconds for which a process may live after its last test. In this time pytest also removes the folders of
earlier runs. With 20 s, a run that had passed was killed on a busy machine.
"""

ASK_AT = 0.8
"""The share of a test's time limit after which the suite requests a dump of the test's process."""

OPTIONS = ("-p", "tests.kit.journal", "-o", "faulthandler_timeout=0", "--continue-on-collection-errors")
NO_TESTS = 5
"""pytest's exit status if there is no test to run."""

BAD = ("failed", "error", "hung", "died")
UNCLEAR = "flaky"
"""The outcome of a test that has failed and, run again, passed."""

ELSEWHERE = re.compile(r'File ".*/(_pytest|pluggy|pytest)/|File "<frozen runpy>')
"""Lines of a dump that are the same wherever a test hangs."""

FRAME_ELSEWHERE = re.compile(
    r"^ +\S*(/(_pytest|pluggy|pytest)/\S+|<frozen runpy>):\d+ in .*\n(?! +\S+:\d+ in ).*\n", re.MULTILINE
)
"""The same in a dump of Dhaga's: a frame and its source line."""


class Fault(NamedTuple):
    """A test that has not passed: its outcome, its name, and what it has written."""

    outcome: str
    name: str
    text: str


class Suite:
    """One run of the tests, in one or more processes."""

    def __init__(self, arguments: list[str], journal: Path) -> None:
        self.arguments = arguments
        self.journal = journal
        self.began = time.monotonic()
        self.counts = Counter[str]()
        self.faults: list[Fault] = []
        self.texts: list[str] = []
        self.read = 0
        self.current = ""
        self.stands = ""
        self.undone: list[str] = []
        self.long: list[str] = []

    def run(self) -> int:
        """Run the tests. Returns: the exit status."""
        status = 1
        for _ in range(DEATHS):
            status = self.run_process()
            if self.read_journal():
                break
            if not self.current:  # the process has not begun a test
                return status or 1
            self.bury(status)
        if "DHAGA_RUN_AGAIN" in os.environ and status in (0, 1):
            self.run_again()
        if any(fault.outcome in BAD for fault in self.faults):
            return 1
        return 0 if self.faults or (status == NO_TESTS and self.current) else status

    def run_again(self) -> None:
        """Run the failed tests again, each in a process, if they are few. If a test passes now, count it as flaky."""
        firsts = {fault.name: fault for fault in reversed(self.faults)}
        if len(firsts) > AGAIN or any(fault.outcome == "died" for fault in self.faults):
            return
        for name, fault in firsts.items():
            again = Suite([*self.arguments, f"--again={name}"], self.journal.with_name("again"))
            passes = again.run_process() == 0 and again.read_journal() and again.counts["passed"]
            again.journal.unlink(missing_ok=True)
            if passes:
                self.faults = [each for each in self.faults if each.name != name] + [fault._replace(outcome=UNCLEAR)]

    def run_process(self) -> int:
        command = [sys.executable, "-m", "pytest", *OPTIONS, f"--journal={self.journal}", *self.arguments]
        # The tests no longer ignore signals (see surroundings.py), so signals for the starter must not reach them.
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
        """Request one dump of the process's dhagas if its test is about to count as hung.

        Kill a process that has run all tests and does not end: it waits for a thread that a failed test has left.
        """
        silent = time.time() - self.journal.stat().st_mtime if self.journal.exists() else 0
        if silent > ASK_AT * self.test_seconds():
            process.send_signal(ASKED)
        elif silent > END_SECONDS and b'\n{"end"' in self.journal.read_bytes()[-40:]:
            process.kill()

    def test_seconds(self) -> float:
        """Return the number of seconds after which a test counts as hung."""
        option = "--test-seconds"
        return float(self.arguments[self.arguments.index(option) + 1]) if option in self.arguments else TEST_SECONDS

    def read_journal(self) -> bool:
        """Read the new entries of the journal. Returns: whether the process has finished its tests."""
        ended = False
        for entry in (fresh := entries(self.journal)[self.read :]):
            self.current = entry.get("test", self.current)
            self.undone = entry.get("undone", self.undone)
            self.stands = entry.get("stands", self.stands)
            ended = "end" in entry
            if is_long(**entry):
                self.long.append("LONG {name} - {seconds:.1f} s, {cpu:.1f} s of CPU".format(**entry))
            if entry.get("outcome") in BAD:
                self.faults.append(fault := Fault(**entry))
                self.texts.append(f"\n== {fault.name}\n{fault.text}")
            elif "outcome" in entry:
                self.counts[entry["outcome"]] += 1
        self.read += len(fresh)
        return ended

    def bury(self, status: int) -> None:
        """Count the test that hung or killed its process, and print the failures and dumps of this process."""
        dump = self.journal.read_text().rpartition("}\n")[2]
        outcome = "hung" if dump.startswith("Timeout") else "died"
        self.faults.append(Fault(outcome, self.current, f"E   status {status}\n" if outcome == "died" else ""))
        print(
            *self.texts, f"\n== {self.current} {outcome}", shortened(self.stands), shortened(dump), sep="\n", flush=True
        )
        self.texts.clear()
        self.stands = ""

    def tell(self) -> None:
        """Print the failures, and the number of tests by outcome."""
        print("", *self.long, *map(headline, self.faults), sep="\n")
        outcomes = self.counts + Counter(fault.outcome for fault in self.faults)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        seconds = time.monotonic() - self.began
        started = f", started with {', '.join(self.undone)}" if self.undone else ""
        where = f"on Python {platform.python_version()}"
        print(f"== {counts or 'nothing run'} in {seconds:.0f} s {where}{started}", flush=True)


def is_long(seconds: float = 0, cpu: float = 0, why: str = "", **_: object) -> bool:
    """Return whether a test takes long without a reason. On a busy machine, only its CPU time counts."""
    busy = os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    return not why and (cpu if busy else seconds) > LONG_SECONDS


def headline(fault: Fault) -> str:
    """Return the outcome of a test and its reason, in one line."""
    why = re.findall(r"^E +(.*)", fault.text, re.MULTILINE)
    return f"{fault.outcome.upper()} {fault.name}{f' - {why[0][:200]}' if why else ''}"


def shortened(dump: str) -> str:
    """Return a dump without the lines that are the same wherever a test hangs."""
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
            suite.faults.append(Fault("terminated", suite.current, ""))
            raise
        finally:
            suite.tell()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
