"""The pytest plugin, which runs tests in dhagas, optionally on a virtual clock, and fails tests that leave dhagas.

``@pytest.mark.dhaga`` runs a test in a dhaga. ``@pytest.mark.dhaga_simulated`` runs a test with many seeds; see
``dhaga.simulation``. The fixture ``dhaga_clock`` is a clock that jumps to the next deadline, and ``--dhaga-seed``
shuffles the run queues of tests with this clock. ``dhaga.testing`` has further tools.

A marked test runs in a dhaga of the main code's scheduler; its fixtures, ``setUp`` and ``tearDown`` run in the main
code. The main code is parked during the test. So a test in which every dhaga waits forever ends with a Deadlock that
names the waits. Dhagas that a test has left are cancelled after the test. The test fails, unless all of them are
daemons.

pytest loads the hooks in every environment with Dhaga. So the hooks are in ``_dhaga_pytest.py``, outside the package,
and loading them does not import Dhaga. The hooks import this module for the first marked test. The option
``-p dhaga.pytest_plugin`` loads the hooks explicitly.

PYTEST_DONT_REWRITE: this module has no assert. Without this mark, pytest would warn if this module was imported before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, wraps
from inspect import Parameter, Signature, isasyncgenfunction, iscoroutinefunction
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from _dhaga_pytest import (
    dhaga_clock,
    dhaga_simulation,
    pytest_addoption,
    pytest_configure,
    pytest_runtest_call,
    pytest_runtest_makereport,
    pytest_runtest_setup,
    pytest_unconfigure,
)

from . import testing
from ._kernel.api import spawn
from ._kernel.originals import monotonic
from ._kernel.run.attachment import schedulers
from ._kernel.run.microthread import RUNNING, Dhaga
from ._kernel.timeout import Timeout

if TYPE_CHECKING:
    from .debug._snapshot import DhagaView

__all__ = [
    "dhaga_clock", "dhaga_simulation", "pytest_addoption", "pytest_configure", "pytest_runtest_call",
    "pytest_runtest_makereport", "pytest_runtest_setup", "pytest_unconfigure",
]  # fmt: skip

END_SECONDS = 5.0
"""The longest time, in seconds, for which the plugin waits until cancelled leftover dhagas have ended."""

LONGEST_LIST = 20
"""The largest number of leftover dhagas that a report lists."""

# ---- the seed


def choose_seed() -> None:
    """Set a random seed, for runs in which each test has its own seed."""
    testing.seed = random.SystemRandom().getrandbits(32)


# ---- the mark


MARK = Signature([Parameter("timeout", Parameter.POSITIONAL_OR_KEYWORD, default=None)])


def timeout_of(mark: pytest.Mark) -> float | None:
    """Return the timeout of a mark; an invalid mark fails the test."""
    try:
        timeout = MARK.bind(*mark.args, **mark.kwargs).arguments.get("timeout")
    except TypeError as error:
        pytest.fail(f"@pytest.mark.dhaga takes one argument, timeout: {error}", pytrace=False)
    if timeout is None or (isinstance(timeout, int | float) and timeout > 0):
        return timeout
    pytest.fail(f"@pytest.mark.dhaga: a timeout is seconds above 0, or None, and not {timeout!r}", pytrace=False)


def in_dhaga(fn: Callable[..., Any], name: str, timeout: float | None) -> Callable[..., Any]:
    """Return a function that calls the test function in a dhaga; a coroutine function fails the test."""
    if iscoroutinefunction(fn) or isasyncgenfunction(fn):
        pytest.fail(
            f"{name} is a coroutine function, and a dhaga calls plain ones: leave the mark out, or write `def`, and "
            "dhaga.await_(coroutine) where it awaits",
            pytrace=False,
        )

    @wraps(fn)
    def called_in_dhaga(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return call_in_dhaga(partial(fn, *args, **kwargs), name, timeout)

    return called_in_dhaga


def call_in_dhaga(call: Callable[[], Any], name: str, timeout: float | None) -> Any:
    """Run a test in a dhaga, then cancel the dhagas that the test has left. If not all are daemons, the test fails."""
    from .debug import _spawn_sites

    __tracebackhide__ = True
    before = live_dhagas()
    test = spawn(call, name=name)
    with _spawn_sites.recording():
        try:
            value = result_of(test, timeout)
            left = sorted(filter(must_have_ended, live_dhagas() - before), key=age)
            descriptions = [description(dhaga) for dhaga in left[:LONGEST_LIST]]
        finally:
            cancel_and_join(lambda: live_dhagas() - before)
    if left:
        fail_leaving(name, len(left), descriptions)
    return value


def result_of(test: Dhaga, timeout: float | None) -> Any:
    """Return the result of a test. Raises: the test's error; TimeoutError with a dump of waits after ``timeout``."""
    __tracebackhide__ = True
    try:
        with Timeout(timeout):
            return test.result()
    except TimeoutError:
        if test.is_alive():  # otherwise the test itself has raised the error
            fail_late(test, timeout)
        raise


def fail_late(test: Dhaga, timeout: float | None) -> NoReturn:
    """Raise TimeoutError with a dump of all dhagas as its note."""
    by = " of the virtual clock" if isinstance(test.scheduler.clock, testing.VirtualClock) else ""
    error = TimeoutError(f"{test.name} was not done within {timeout} s{by}")
    error.add_note(dump_without_pytest())
    raise error from None


def dump_without_pytest() -> str:
    """Return a dump without this thread's main code, whose stack is 45 lines of pytest's frames."""
    from .debug import _dump, snapshot

    seen = snapshot()
    schedulers = [replace(each, dhagas=tuple(filterfalse(is_the_caller, each.dhagas))) for each in seen.schedulers]
    return _dump.text_of(replace(seen, schedulers=tuple(schedulers)))


def is_the_caller(view: DhagaView) -> bool:
    """Return whether a view shows the code that took the snapshot: the only main code that is running."""
    return view.kind == "main code" and view.state == RUNNING


# ---- simulations

SIMULATED = Signature(
    [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default)
        for name, default in {
            "seeds": 200, "strategy": "mixed", "preempt": "lines", "modules": (), "allow": (),
            "max_events": 1_000_000, "max_seconds": 2_592_000.0, "stalls": 1.0, "tasks": False, "faults": None,
            "jobs": None,
        }.items()
    ]
)  # fmt: skip
"""The arguments of the mark ``dhaga_simulated``."""


ENDINGS = ("Skipped", "XFailed", "Exit")
"""The classes of the errors of ``pytest.skip()``, ``pytest.xfail()`` and ``pytest.exit()``."""


class CurrentSimulation:
    """A proxy for the simulation in which a test is running, since each seed has a new simulation."""

    def __getattr__(self, name: str) -> Any:
        from .simulation import current

        return getattr(current(), name)


def in_simulations(fn: Callable[..., Any], name: str, mark: pytest.Mark) -> Callable[..., Any]:
    """Return a function that runs the test with many seeds. A failing run is shrunk and repeated in this process."""
    try:
        arguments = SIMULATED.bind(*mark.args, **mark.kwargs)
    except TypeError as error:
        pytest.fail(f"@pytest.mark.dhaga_simulated takes {', '.join(SIMULATED.parameters)}: {error}", pytrace=False)
    arguments.apply_defaults()

    @wraps(fn)
    def called_in_simulations(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        simulate(partial(fn, *args, **kwargs), name, dict(arguments.arguments))

    return called_in_simulations


def simulate(call: Callable[[], object], name: str, arguments: dict[str, Any]) -> None:
    """Run a test with all seeds, and fail with the first failure."""
    from .simulation import Settings, search, shrink
    from .simulation._schedule.strategies import strategy_of

    __tracebackhide__ = True
    seeds, jobs = arguments.pop("seeds"), arguments.pop("jobs")
    settings = Settings(**arguments | {"strategy": strategy_of(arguments["strategy"])})
    findings = search(call, seeds if testing.seed is None else [testing.seed], settings, jobs=jobs)
    if findings.interrupted:
        raise KeyboardInterrupt
    if findings.failures:
        first = findings.failures[0]
        # Such a run needs no report, and is repeated only so that pytest sees its error.
        fail_simulated(call, settings, name, first if first.kind in ENDINGS else shrink(call, settings, first))


def fail_simulated(call: Callable[[], object], settings: Any, name: str, failed: Any) -> NoReturn:
    """Repeat a failing run in this process, so that pytest shows the error with the lines around the switches."""
    from .simulation._schedule.switches import switches_from
    from .simulation._search.outcome import run_in
    from .simulation._world.report import failure_text
    from .simulation.network._faults import numbers_from

    __tracebackhide__ = True
    text = failure_text(failed).partition("\n\nthe lines around")
    hint = f"{''.join(text[1:])}\n\nthe unshortened run: pytest --dhaga-seed {failed.seed}, for {name}"
    try:
        switches, faults = switches_from(failed.switches), numbers_from(failed.faults)
        run_in(settings.simulation(failed.seed, switches=switches, only_faults=faults), call)
    except BaseException as error:
        if failed.kind in ENDINGS:
            vars(error).pop("__notes__", None)  # the report: a skipped test has not failed
        elif type(error).__name__ == failed.kind:
            error.add_note(hint.lstrip())
        raise
    pytest.fail(f"{failed.report}{hint}", pytrace=False)


# ---- leftover dhagas


def live_dhagas() -> set[Dhaga]:
    """Return the live dhagas of all schedulers."""
    return {dhaga for scheduler in list(schedulers) for dhaga in list(scheduler.live)}


def must_have_ended(dhaga: Dhaga) -> bool:
    """Return whether a leftover dhaga makes the test fail: not if the dhaga is a daemon, or is ending in another
    thread.
    """
    return dhaga.is_alive() and not dhaga.daemon


def age(dhaga: Dhaga) -> int:
    return dhaga.ident


def description(dhaga: Dhaga) -> str:
    """Return the repr of a dhaga with the line that spawned it, if possible a line outside Dhaga's own code."""
    from .debug import _spawn_sites

    stack = _spawn_sites.spawn_site_of(dhaga)
    places = [frame for frame in stack if not frame.of_dhaga] or stack
    return f"{dhaga!r}, spawned at {places[-1]}" if places else f"{dhaga!r}"


def fail_leaving(name: str, count: int, descriptions: list[str]) -> None:
    """Fail a test that has left dhagas. ``descriptions`` describes the oldest of these dhagas."""
    more = [f"... and {count - len(descriptions)} more"] if count > len(descriptions) else []
    pytest.fail("\n  ".join([f"{name} has left over {count} of its dhagas:", *descriptions, *more]), pytrace=False)


def cancel_and_join(leftover: Callable[[], Iterable[Dhaga]]) -> None:
    """Cancel leftover dhagas, also those that they spawn meanwhile, and wait at most ``END_SECONDS`` for their end."""
    deadline = monotonic() + END_SECONDS
    while (dhagas := leftover()) and monotonic() < deadline:
        for dhaga in dhagas:
            dhaga.cancel("its test is over")
        for dhaga in dhagas:
            dhaga.join(max(0.0, deadline - monotonic()))
