"""A pytest plugin that writes down what each test comes to while it runs, for ``tests/kit/suite.py``.

One JSON object a line: ``{"test": …}`` as a test begins, ``{"outcome": …, "text": …}`` for what it comes to, ``{"end":
…}`` when all is over. What the journal tells of already is not run again. A test that takes too long ends the process;
where it stood then is behind the last line.
"""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TEST_SECONDS = 180
"""After which a test counts as hung. The longest takes 10, on a busy machine; ``scripts.PATIENCE`` is 60."""


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

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.known]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.write(test=item.nodeid)
        faulthandler.dump_traceback_later(self.seconds, exit=True, file=self.file)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

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


def entries(path: Path) -> list[dict[str, Any]]:
    """Read a journal."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]
