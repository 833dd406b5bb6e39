"""After each test nothing may be left: no dhaga, timer, registered fd, thread, or log line that nobody asked for."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator

import pytest

from dhaga import testing
from dhaga.kernel.waiting import here


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--dhaga-seed", type=int, default=None, help="shuffle the virtual clocks' run queues by it")


def pytest_configure(config: pytest.Config) -> None:
    testing.seed = config.getoption("--dhaga-seed")
    config.addinivalue_line("markers", "logs: this test expects lines of the dhaga logger")


def pytest_report_header(config: pytest.Config) -> str:
    return f"dhaga: seed {testing.seed}, poller {os.environ.get('DHAGA_POLLER', 'of the platform')}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A service that CI must have is not to be skipped."""
    if os.environ.get("DHAGA_REQUIRE_SERVICES") == "1" and report.skipped and "DHAGA_" in str(report.longrepr):
        raise pytest.UsageError(f"{report.nodeid} was skipped, but DHAGA_REQUIRE_SERVICES=1: {report.longrepr}")


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    threads = testing.other_threads()
    yield
    problems = testing.close_leftover_schedulers()
    assert here.main is None
    deadline = time.monotonic() + 2
    while (left := testing.other_threads() - threads) and time.monotonic() < deadline:
        time.sleep(0.01)
    problems += [repr(thread) for thread in left]
    if not request.node.get_closest_marker("logs"):
        problems += [r.getMessage() for r in caplog.get_records("call") if r.levelno >= logging.WARNING]
    assert not problems, f"left over: {problems}"
