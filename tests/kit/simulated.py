"""Tests under drawn schedules: ``pytest --dhaga-simulated SEEDS``, or ``make test-simulated``.

Each test runs with its fixtures in a simulation, by that number of seeds, each in a process of its own. What are OS
threads in the test are dhagas there, and the code of Dhaga that OS threads share is interrupted between its lines
(``tests/kit/simulated_threads.py``). With ``DHAGA_PURE=1`` no compiled function hides such lines.

``not_simulated.toml`` lists the tests that cannot run so, by reason. A listed one must fail by one of ``LISTED_SEEDS``.
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
"""The most seeds by which a listed test runs before it counts as one that passes."""

REAL_SECONDS = 60.0
"""Seconds that a run may take, on a busy machine."""

LISTED_REAL_SECONDS = 2.0
"""The same for a listed test: one that blocks the only OS thread never ends."""


def listed_reasons() -> dict[str, str]:
    """Return the reason for each listed test."""
    return {name: each["reason"] for each in tomllib.loads(LISTED.read_text())["loss"] for name in each["tests"]}


class Failed(Exception):
    """A test has failed in a simulation; the text is its report."""


class Simulated:
    """The pytest plugin. ``seeds``: the number of seeds for each test; ``reasons``: of listed tests."""

    def __init__(self, seeds: int, reasons: dict[str, str]) -> None:
        self.seeds = seeds
        self.reasons = reasons
        interrupt_shared_code()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
        """Put a SimulatedTest in the place of each test. Raises: UsageError for a listed one that does not exist."""
        if not any("::" in argument for argument in config.args):
            files = {item.nodeid.partition("::")[0] for item in items}
            known = {name for item in items for name in names_of(item)}
            if gone := {each for each in self.reasons if each.partition("::")[0] in files} - known:
                raise pytest.UsageError(f"{LISTED.name} lists tests that do not exist: {', '.join(sorted(gone))}")
        yield  # others mark tests, and deselect some
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
    """Return the names by which a test may be listed: its own, and that of all its parameters."""
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
        # Its timer is a thread, which no forked process has: a failing test would wait there for its end.
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
    test.session._setupstate.teardown_exact(None)  # the SimulatedTest in whose place it is
    for report in runtestprotocol(test, log=False):
        if report.failed:
            raise AssertionError(report.longreprtext)
