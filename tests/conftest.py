"""After each test nothing may be left: no dhaga, timer, registered fd, thread, or log line that nobody asked for."""

from __future__ import annotations

import gc
import logging
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import pytest

from dhaga import testing
from dhaga._kernel.run import scheduler_state
from dhaga._kernel.run.loop import HubSelector
from dhaga._kernel.wait.current import this_thread
from dhaga._workers.offload import end_idle_threads
from tests.kit import surroundings
from tests.kit.crowd import Crowd, Stress
from tests.kit.marks import CROWD, starts_process

surroundings.make_ordinary()

SERVICE = re.compile(r"\bDHAGA_(?!POLLER)[A-Z]+")
"""What the reason names by which a test is skipped where its service does not answer."""

STRUCK_AT_PARKS = {
    "tests.test_testing": "its scenarios lose things",
    "tests.http.test_urllib3_pools": "urllib3 leaves a response that was struck to the garbage collector",
    "test_a_broken_unwrap_can_be_taken_up_again": "its victim holds what it has received in a variable of its loop",
}
"""Modules and tests whose scenarios are not struck at events."""

stress = pytest.StashKey[Stress]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--dhaga-operations", type=int, default=0, help="how many the crowds are to make, all together")
    parser.addoption("--dhaga-events", type=int, default=3, help="at how many events scenarios of parks are struck")
    parser.addoption("--dhaga-simulated", type=int, default=0, help="by how many seeds each test is simulated")
    parser.addoption("--dhaga-programs", type=int, default=30, help="how many random programs of exits are run")
    parser.addoption("--dhaga-seeds", type=int, default=60, help="how many seeds the simulated examples are run by")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[stress] = Stress(config.getoption("--dhaga-operations"), testing.seed)
    if hasattr(sys, "monitoring"):
        strike_at_events(config.getoption("--dhaga-events"))
    if seeds := config.getoption("--dhaga-simulated"):
        from tests.kit.simulated import Simulated, listed_reasons

        config.pluginmanager.register(Simulated(seeds, listed_reasons()))


def strike_at_events(most: int) -> None:
    """Let ``cancel_at_every_park`` also strike its scenario at events, in all tests. Call before their import.

    ``most``: that many, drawn by the seed, where a scenario has more.
    """
    at_every_park = testing.cancel_at_every_park
    draw = random.Random(testing.seed or 0)

    def at_parks_and_events(scenario: testing.Scenario) -> int:
        test = sys._getframe(1)
        if not STRUCK_AT_PARKS.keys() & {test.f_globals["__name__"], test.f_code.co_name}:
            events = testing.cancel_at_event(scenario, sys.maxsize)
            for nth in sorted(draw.sample(range(1, events + 1), min(most, events))):
                testing.cancel_at_event(scenario, nth)
        return at_every_park(scenario)

    testing.cancel_at_every_park = at_parks_and_events


def pytest_report_header(config: pytest.Config) -> str:
    started = f", started with {', '.join(surroundings.undone)}" if surroundings.undone else ""
    return f"dhaga: seed {testing.seed}, poller {os.environ.get('DHAGA_POLLER', 'of the platform')}{started}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect the tests without the garbage collector, which took a sixth of the time and found little."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Have no collection look again at the tests themselves: 300,000 objects, 0.3 s each time a test asks for one."""
    gc.collect()
    gc.freeze()


# ---- marks: see tests/kit/marks.py


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that start a process, and those of a crowd, where that shows."""
    for item in items:
        if isinstance(item, pytest.Function):
            fixtures = item._fixtureinfo.name2fixturedefs.values()
            functions = [item.function, *(each.func for defs in fixtures for each in defs)]
            if starts_process(iter(functions)):
                item.add_marker(pytest.mark.process)
            if "crowd" in item.fixturenames or CROWD.search(item.name):
                item.add_marker(pytest.mark.crowd)


# ---- services


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report = yield
    return must_not_be_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    report = yield
    return must_not_be_skipped(report)


def must_not_be_skipped(report: Any) -> Any:
    """Have a test fail that is skipped for want of a service where DHAGA_REQUIRE_SERVICES=1, as in CI."""
    if report.skipped and os.environ.get("DHAGA_REQUIRE_SERVICES") == "1" and SERVICE.search(str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"DHAGA_REQUIRE_SERVICES=1 forbids: {report.longrepr[2]}"
    return report


# ---- crowds: see tests/kit/crowd.py


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    rounds = metafunc.config.stash[stress].rounds
    if "crowd" in metafunc.fixturenames and rounds:
        metafunc.parametrize("crowd", range(rounds), indirect=True)


@pytest.fixture
def crowd(request: pytest.FixtureRequest) -> Iterator[Crowd]:
    mark = request.node.get_closest_marker("share")
    crowd = request.config.stash[stress].crowd(getattr(request, "param", 0), mark.args[0] if mark else 1)
    print(f"repeat with --dhaga-seed {crowd.seed}")
    yield crowd
    request.config.stash[stress].done += crowd.done()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[stress].goal:
        terminalreporter.write_line(str(config.stash[stress]))


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # what hypothesis imports for its summary looks for referrers
    if session.config.stash[stress].short() and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


# ---- what is left

selectors_made: WeakSet[HubSelector] = WeakSet()
"""Of schedulers' own loops. One that is not closed is reported by the next collection, in another test."""


class RecordedSelector(HubSelector):
    def __init__(self) -> None:
        super().__init__()
        selectors_made.add(self)


scheduler_state.HubSelector = RecordedSelector


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    if testing.shared_clock() is not None:  # a simulation ends only once its threads have
        yield
        return
    threads = testing.other_threads()
    yield
    problems = testing.close_leftover_schedulers()
    assert this_thread.main is None
    deadline = time.monotonic() + 30
    with probes_end():
        while (left := testing.other_threads() - threads) and time.monotonic() < deadline:
            end_idle_threads()
            time.sleep(0.01)
    problems += [repr(thread) for thread in left]
    problems += ["the loop of a Scheduler that was never started"] * sum(map(is_open, list(selectors_made)))
    selectors_made.clear()
    if not request.node.get_closest_marker("logs"):
        problems += [r.getMessage() for r in caplog.get_records("call") if r.levelno >= logging.WARNING]
    assert not problems, f"left over: {problems}"


@contextmanager
def probes_end() -> Iterator[None]:
    """Let the threads of debug's probes end at their next look, and not five seconds after the last query."""
    with pytest.MonkeyPatch.context() as patch:
        if "dhaga.debug._on_demand" in sys.modules:
            patch.setattr("dhaga.debug._on_demand.KEEP_SECONDS", 0)
        yield


def is_open(selector: HubSelector) -> bool:
    """Return whether the loop of a selector is still to be closed. A forked child's was its parent's."""
    return selector.get_map() is not None and selector.pid == os.getpid()
