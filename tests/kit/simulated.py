"""Tests under random schedules: ``pytest --dhaga-simulated SEEDS``, or ``make test-simulated``.

Each test runs with its fixtures in simulations with SEEDS seeds, each in its own process. OS threads of the test are
dhagas there, and the code of Dhaga that OS threads share is interrupted between its lines
(``tests/kit/simulated_threads.py``). With ``DHAGA_PURE=1``, no compiled function hides such lines.

``not_simulated.toml`` lists the tests that cannot run in a simulation, by reason. A listed test must fail with one of
the first ``LISTED_SEEDS`` seeds.
"""

from __future__ import annotations

import faulthandler
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from dhaga.simulation import Outcome, search
from tests.kit.simulated_schedulers import simulate_schedulers
from tests.kit.simulated_threads import SETTINGS, interrupt_shared_code, replaced_but_reprs

LISTED = Path(__file__).with_name("not_simulated.toml")

LISTED_SEEDS = 100
"""Maximum number of seeds for a listed test. A listed test that passes with all of them is an error."""

REAL_SECONDS = 60.0
"""Maximum number of seconds of a run; the machine may be busy."""

LISTED_REAL_SECONDS = 2.0
"""The same for a listed test, which may block the only OS thread for ever."""


def listed_reasons() -> dict[str, str]:
    """Return the reason for each listed test."""
    return {name: each["reason"] for each in tomllib.loads(LISTED.read_text())["loss"] for name in each["tests"]}


class Failed(Exception):
    """Raised if a test fails in a simulation; the text is the report."""


class Simulated:
    """The pytest plugin. ``seeds``: number of seeds for each test; ``reasons``: the reason for each listed test."""

    def __init__(self, seeds: int, reasons: dict[str, str]) -> None:
        self.seeds = seeds
        self.reasons = reasons
        interrupt_shared_code()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
        """Replace each test with a SimulatedTest. Raises: UsageError for a listed test that does not exist."""
        if not any("::" in argument for argument in config.args):
            files = {item.nodeid.partition("::")[0] for item in items}
            known = {name for item in items for name in names_of(item)}
            if gone := {each for each in self.reasons if each.partition("::")[0] in files} - known:
                raise pytest.UsageError(f"{LISTED.name} lists tests that do not exist: {', '.join(sorted(gone))}")
        yield  # other plugins mark and deselect tests
        items[:] = [
            SimulatedTest.from_parent(item.parent, name=item.name, test=item, plugin=self)
            for item in items
            if isinstance(item, pytest.Function)
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Iterator[Any]:
        """Patch once for all tests."""
        with replaced_but_reprs():
            return (yield)


def names_of(item: pytest.Item) -> tuple[str, str]:
    """Return the names under which a test may be listed: its own name, and its name without parameters."""
    return item.nodeid, item.nodeid.partition("[")[0]


class SimulatedTest(pytest.Item):
    """A test that runs in simulations."""

    def __init__(self, *, test: pytest.Function, plugin: Simulated, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.test = test
        self.seeds = plugin.seeds
        self.reason = next((plugin.reasons[name] for name in names_of(test) if name in plugin.reasons), None)
        self.own_markers = list(test.own_markers)
        self.keywords.update(test.keywords)

    def runtest(self) -> None:
        # The timer is a thread, which a forked process lacks: a failing test would wait there for the thread's end.
        faulthandler.cancel_dump_traceback_later()
        if self.reason is None:
            self.must_pass()
        else:
            self.must_fail()

    def must_pass(self) -> None:
        if failures := self.failures(self.seeds, REAL_SECONDS):
            failure = failures[0]
            raise Failed(f"{failure.report}\nE   {failure.kind} at seed {failure.seed}, strategy {failure.strategy}")

    def must_fail(self) -> None:
        if not self.failures(LISTED_SEEDS, LISTED_REAL_SECONDS):
            raise Failed(f"E   {LISTED.name} lists it ({self.reason}), but it passes by {LISTED_SEEDS} seeds")

    def failures(self, seeds: int, real_seconds: float) -> list[Outcome]:
        return search(partial(run_with_fixtures, self.test), seeds, SETTINGS, real_seconds=real_seconds).failures

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        return str(excinfo.value) if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.test.reportinfo()


def run_with_fixtures(test: pytest.Function) -> None:
    """Run a test with its fixtures. Raises: AssertionError with the text of its failure."""
    simulate_schedulers()
    test.session._setupstate.teardown_exact(None)  # of the SimulatedTest that has replaced the test
    for report in runtestprotocol(test, log=False):
        if report.failed:
            raise AssertionError(report.longreprtext)
