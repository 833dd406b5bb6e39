"""Run one of CPython's test modules to its end, whatever hangs or dies, and tell what each of its tests came to.

A process of ours (``tests/stdlib/child.py``) runs the tests; this one watches it from outside, as alarms and threads
are what some of them test. A test over its limit hung, a process that is gone died; another process runs the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.surroundings import reset_signals
from tests.stdlib.child import TRACE_SIGNAL

CHILD = Path(__file__).with_name("child.py")
PROGRAM = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
PATCHED = f"import dhaga.monkey; dhaga.monkey.patch(); {PROGRAM}"

SEVERITY = ("passed", "skipped", "failed", "lost", "died", "hung")
"""Of several outcomes of a test, the last one here counts. Lost is what ought to have run and did not."""

over = threading.Event()
"""Set when all runs are to end, wherever they are."""

GLANCE_SECONDS = 0.05
LOADING_SECONDS = 60
EXIT_SECONDS = 20
"""How long a process may take to load a module, and to exit after its last test."""


@dataclass
class Limits:
    """What a run may use: seconds a test, processes that may end before their time, and CPython's test resources."""

    test_seconds: float = 40
    deaths: int = 20
    resources: tuple[str, ...] = ("walltime", "cpu")


@dataclass
class Record:
    """What a test came to, and why."""

    outcome: str
    text: str = ""
    seconds: float = 0.0


@dataclass
class ModuleRun:
    """One module in as many processes as that takes."""

    module: str
    patched: bool
    limits: Limits
    only: Collection[str] | None = None
    left_out: str = ""
    package: str = "test"
    """What holds the module. Names of tests begin below it."""
    tests: list[str] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)

    @property
    def loading(self) -> str:
        """The name under which trouble outside of any test is told."""
        return f"{self.module}.(module)"

    def command(self) -> list[str]:
        """Return what starts a process of tests, without the file of its plan."""
        return [sys.executable, "-c", PATCHED if self.patched else PROGRAM, str(CHILD)]

    def environment(self) -> dict[str, str]:
        """Return the environment of that process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return {**kept, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    def plan(self) -> dict[str, Any]:
        """Return what the next process is to do."""
        return {
            "package": self.package,
            "module": f"test.{self.module}" if self.module.startswith("test_") else self.module,
            "loading": self.loading,
            "resources": self.limits.resources,
            "left_out": self.left_out,
            "only": None if self.only is None else [*self.only],
            "without": [*self.records],
        }

    def run(self) -> dict[str, Record]:
        """Return what each test came to."""
        for _ in range(self.limits.deaths):
            with tempfile.TemporaryDirectory(prefix="dhaga-stdlib-", ignore_cleanup_errors=True) as directory:
                child = Child(self, Path(directory))
                child.watch()
            if over.is_set() or child._done or not self.blame(child):
                break
        self.settle_fixtures()
        return self.records

    def settle(self, test: str, outcome: str, text: str = "", seconds: float = 0.0) -> None:
        record = self.records.setdefault(test, Record(outcome, text))
        record.seconds = max(record.seconds, seconds)
        if SEVERITY.index(outcome) > SEVERITY.index(record.outcome):
            record.outcome, record.text = outcome, text

    def left(self) -> list[str]:
        """Return the tests that no process has come to."""
        wanted = self.tests if self.only is None else [test for test in self.tests if test in self.only]
        return [test for test in wanted if test not in self.records]

    def blame(self, child: Child) -> bool:
        """Say which test ended a process before its time; whether there is anything left to run."""
        test = child.current or self.loading
        if not (child.current or child.ended) and (left := self.left()):  # a fixture: it will not get any further
            test = left[0]
            for other in left:
                if other.rpartition(".")[0] == test.rpartition(".")[0]:
                    self.settle(other, child.verdict, f"in a fixture: {child.why}")
        where = "" if child.current else f"after {child.ended or 'no test'}: "
        self.settle(test, child.verdict, where + child.why, child.limit() if child.verdict == "hung" else 0.0)
        return bool(self.left())

    def settle_fixtures(self) -> None:
        """Give a test that never began the outcome of the fixture that kept it from that."""
        fixtures = [name for name in self.records if name.endswith(")") and " (" in name]
        for name, record in [(name, self.records.pop(name)) for name in fixtures]:
            what = f"{name.partition(' (')[2].removesuffix(')').removeprefix(f'{self.package}.')}."
            kept = [test for test in self.left() if test.startswith(what)]
            for test in kept or [self.loading]:
                self.settle(test, record.outcome, f"{name}\n{record.text}")
        for test in self.left():
            self.settle(test, "lost", "not run")


class Child:
    """One process, and how far it has come."""

    def __init__(self, run: ModuleRun, directory: Path) -> None:
        self.run = run
        self.journal = directory / "journal"
        self.trace = directory / "trace"
        self.position = 0
        self.loaded = self._done = False
        self.current = self.ended = self.verdict = self.why = ""
        self.began = self.last = time.monotonic()
        self.process = self.start(directory)

    def start(self, directory: Path) -> subprocess.Popen[bytes]:
        (place := directory / "tests").mkdir()
        self.output = (directory / "output").open("w+", errors="replace")
        (plan := directory / "plan").write_text(json.dumps(self.plan()))
        return subprocess.Popen(
            [*self.run.command(), str(plan)],
            cwd=place,
            env={**self.run.environment(), "TMPDIR": str(place)},
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
            preexec_fn=with_default_signals,
        )

    def plan(self) -> dict[str, Any]:
        return {**self.run.plan(), "journal": str(self.journal), "trace": str(self.trace)}

    def watch(self) -> None:
        """Take in what the process writes, until it exits or must be ended."""
        while self.process.poll() is None and not over.is_set():
            self.read()
            if time.monotonic() - self.last > self.limit():
                self.give_up()
                break
            time.sleep(GLANCE_SECONDS)
        if not self.verdict:
            self.read()
        if not self.verdict and not self._done:
            self.verdict, self.why = "died", f"the process exited with {self.process.poll()}\n{self.written()}"
        self._end()

    def limit(self) -> float:
        """Return the seconds after which no news is a hang."""
        if self._done:
            return EXIT_SECONDS
        return self.run.limits.test_seconds if self.loaded else LOADING_SECONDS

    def read(self) -> None:
        """Take in what is new in the journal."""
        if not self.journal.exists():
            return
        with self.journal.open("rb") as file:
            file.seek(self.position)
            news = file.read()
        news = news[: news.rfind(b"\n") + 1]
        self.position += len(news)
        for line in news.splitlines():
            self.take(json.loads(line))

    def take(self, entry: dict[str, Any]) -> None:
        self.last = time.monotonic()
        match entry:
            case {"tests": tests}:
                self.loaded, self.run.tests = True, tests
            case {"begin": test}:
                self.settle_current()
                self.current = test
            case {"test": test, "outcome": outcome, "text": text}:
                self.run.settle(test, outcome, text)
            case {"end": test, "seconds": seconds}:
                self.ended = test
                if test in self.run.records:  # else it was interrupted
                    self.current, self.run.records[test].seconds = "", seconds
            case {"left": text}:
                self.verdict, self.why = "failed", text
            case {"done": _}:
                self.settle_current()
                self._done = True

    def settle_current(self) -> None:
        """Take a test that has ended without a word for passed, now that others follow."""
        if self.current:
            self.run.settle(self.current, "passed")
            self.current = ""

    def give_up(self) -> None:
        """Note where the process stands that hangs."""
        with contextlib.suppress(OSError):
            self.process.send_signal(TRACE_SIGNAL)
            time.sleep(0.3)
        self.verdict = "hung"
        self.why = f"no news for {self.limit():g} s\n{self.trace.read_text(errors='replace')}\n{self.written()}"
        if self._done:
            self.run.settle(self.run.loading, "hung", f"does not exit: {self.why}")

    def written(self) -> str:
        """Return the end of what the process has printed."""
        self.output.seek(0)
        return self.output.read()[-1500:]

    def _end(self) -> None:
        """End what is left of the process and of those it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()


def with_default_signals() -> None:
    """Undo what a shell does to a job in the background; some tests send these signals."""
    reset_signals()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
