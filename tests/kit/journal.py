"""A pytest plugin that writes the outcome of each test into a journal during the run, for ``tests/kit/suite.py``.

Each line is a JSON object:

- ``{"undone": …}``: the conditions that ``surroundings.py`` has undone;
- ``{"test": …}``: a test begins;
- ``{"outcome": …, "text": …}``: the outcome of a test;
- ``{"seconds": …, "cpu": …, "why": …}``: the duration of a test, and its reason for a long duration, if any;
- ``{"stands": …}``: the stacks of all dhagas and of main code, if the main thread could still write them;
- ``{"end": …}``: the run has ended.

A test that the journal contains already is not run again. A test that takes too long ends the process. The stacks of
the OS threads then follow the last line.
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
"""Seconds after which a test counts as hung. The longest takes 10 s on a busy machine; ``scripts.PATIENCE`` is 60 s."""

ASKED = signal.SIGRTMAX - 3 if hasattr(signal, "SIGRTMAX") else signal.SIGINFO  # type: ignore[attr-defined]
"""The signal with which the suite requests a dump of the dhagas, just before a test counts as hung."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--journal", type=Path, required=True, help="where to write what each test comes to")
    parser.addoption("--test-seconds", type=float, default=TEST_SECONDS, help="after which a test counts as hung")
    parser.addoption("--again", action="append", default=[], help="run this test again, and only those named like this")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Journal(config))


class Journal:
    """The tests that have run, and their outcomes."""

    def __init__(self, config: pytest.Config) -> None:
        path = config.getoption("--journal")
        self.config = config
        self.seconds = config.getoption("--test-seconds")
        self.known = {entry.get("test") for entry in entries(path)}
        self.again = config.getoption("--again")
        self.file = path.open("a")

    def write(self, **entry: object) -> None:
        print(json.dumps(entry), file=self.file, flush=True)

    def pytest_sessionstart(self) -> None:
        faulthandler.enable(self.file)
        signal.signal(ASKED, self.tell)
        self.write(undone=surroundings.undone)

    def tell(self, *_: object) -> None:
        """Write a dump of the dhagas. This handler wakes no dhaga, so the deadlock detector may ignore it."""
        self.write(stands=debug.dump(0))

    tell.of_dhaga = True  # type: ignore[attr-defined]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item for item in items if item.nodeid in self.again or (not self.again and item.nodeid not in self.known)
        ]

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
        if outcome:  # the setup and the teardown of a passing test have no outcome
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
    """Yield the marks that say that a test takes long."""
    return (mark for mark in item.iter_markers() if mark.name in ("long", "crowd", "slow"))


def entries(path: Path) -> list[dict[str, Any]]:
    """Read a journal."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]
