"""A pytest plugin that writes down what each test comes to while it runs, for ``tests/kit/suite.py``.

One JSON object a line: ``{"undone": …}`` says how the run was started, ``{"test": …}`` that a test begins,
``{"outcome": …, "text": …}`` what it comes to, ``{"seconds": …, "cpu": …, "why": …}`` how long it took, and why, if it
says so, ``{"end": …}`` that all is over. What the journal tells of already is not run again. A test that takes too long
ends the process. Where each OS thread stood then is behind the last line; ``{"stands": …}`` has the stack of each dhaga
and of main code, if the main thread could still write it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dhaga import debug
from tests.kit import surroundings

TEST_SECONDS = 180
"""After which a test counts as hung. The longest takes 10, on a busy machine; ``scripts.PATIENCE`` is 60."""

ASKED = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGINFO  # type: ignore[attr-defined]
"""By which the suite has a process write what each dhaga waits for, just before its test counts as hung."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--journal", type=Path, required=True, help="where to write what each test comes to")
    parser.addoption("--test-seconds", type=float, default=TEST_SECONDS, help="after which a test counts as hung")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Journal(config))


class Journal:
    """What has been run, and what became of it."""

    def __init__(self, config: pytest.Config) -> None:
        path = config.getoption("--journal")
        self.config = config
        self.seconds = config.getoption("--test-seconds")
        self.known = {entry.get("test") for entry in entries(path)}
        self.file = path.open("a")

    def write(self, **entry: object) -> None:
        print(json.dumps(entry), file=self.file, flush=True)

    def pytest_sessionstart(self) -> None:
        faulthandler.enable(self.file)
        signal.signal(ASKED, self.tell)
        self.write(undone=surroundings.undone)

    def tell(self, *_: object) -> None:
        """Write where each dhaga stands. A signal handler that wakes none: a deadlock is one beside it."""
        self.write(stands=debug.dump(0))

    tell.of_dhaga = True  # type: ignore[attr-defined]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.known]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.write(test=item.nodeid)
        faulthandler.dump_traceback_later(self.seconds, exit=True, file=self.file)
        began, cpu = time.monotonic(), cpu_seconds()
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            why = next((mark.args[0] if mark.args else mark.name for mark in marks_of_long(item)), "")
            self.write(name=item.nodeid, seconds=time.monotonic() - began, cpu=cpu_seconds() - cpu, why=why)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, _, _ = self.config.hook.pytest_report_teststatus(report=report, config=self.config)
        if outcome:  # the setup and the end of a test that passes have none
            self.write(outcome=outcome, name=report.nodeid, text=report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(outcome="error", name=report.nodeid, text=report.longreprtext)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        faulthandler.disable()
        self.write(end=exitstatus)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that have ended."""
    return sum(os.times()[:4])


def marks_of_long(item: pytest.Item) -> Iterator[pytest.Mark]:
    """Yield the marks of a test by which it says that it takes long."""
    return (mark for mark in item.iter_markers() if mark.name in ("long", "crowd", "slow"))


def entries(path: Path) -> list[dict[str, Any]]:
    """Read a journal."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]
