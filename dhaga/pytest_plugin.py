"""The pytest plugin: tests in dhagas, on a virtual clock if they like, that leave no dhaga behind.

``@pytest.mark.dhaga`` runs a test in a dhaga; the fixture ``dhaga_clock`` gives it a clock that jumps to the next
deadline; ``--dhaga-seed`` shuffles the run queues of such clocks. The rest of the kit is in ``dhaga.testing``.

A marked test runs in a dhaga of the main code's scheduler, its fixtures (and ``setUp`` and ``tearDown``) in the main
code. So the main code waits, and a test in which everybody waits for good ends with a Deadlock that says who for what.

pytest imports this wherever Dhaga is installed. ``dhaga.debug``, a third of what that takes, waits for the first test
that is marked.

PYTEST_DONT_REWRITE: there is no assert here, and pytest would warn where this was imported before.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial, wraps
from inspect import Parameter, Signature, isasyncgenfunction, iscoroutinefunction
from time import monotonic
from typing import Any, NoReturn

import pytest

from . import testing
from .kernel.api import Timeout, spawn
from .kernel.microthread import Dhaga
from .kernel.scheduler import schedulers

GRACE = 5.0
"""Seconds that all who are left over have to end, once they are cancelled."""

LONGEST_LIST = 20
"""So many of those who are left over are told one by one."""

former_seed = pytest.StashKey[int | None]()

# ---- the seed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dhaga").addoption(
        "--dhaga-seed",
        metavar="N|random",
        type=seed_or_random,
        help="shuffle the run queues of virtual clocks by this seed; random: by another one for each test, which a "
        "failure tells",
    )


def seed_or_random(text: str) -> int | str:
    """Read the option. Raises: ArgumentTypeError."""
    try:
        return text if text == "random" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, or random, and not {text!r}") from None


@pytest.hookimpl(tryfirst=True)  # a conftest.py may ask for the seed when it is configured
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "dhaga(timeout=None): run the test in a dhaga, for so many seconds at most, and fail it if it leaves others",
    )
    config.stash[former_seed] = testing.seed
    seed = config.getoption("--dhaga-seed")
    testing.seed = seed if isinstance(seed, int) else None


def pytest_unconfigure(config: pytest.Config) -> None:
    testing.seed = config.stash.get(former_seed, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose a seed for the test, if each is to have one of its own."""
    if item.config.getoption("--dhaga-seed") == "random":
        testing.seed = random.SystemRandom().getrandbits(32)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell of a failure by which seed it can be repeated."""
    report = yield
    if report.failed and testing.seed is not None:
        report.sections.append(("dhaga", f"virtual clocks are shuffled: repeat it with --dhaga-seed {testing.seed}"))
    return report


# ---- the clock


@pytest.fixture
def dhaga_clock() -> Iterator[testing.VirtualClock]:
    """Give the test a clock that jumps to the next deadline as soon as everybody waits; see `testing.virtual_clock`."""
    with testing.virtual_clock() as clock:
        yield clock


# ---- the mark


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Have a marked test called in a dhaga."""
    __tracebackhide__ = True
    mark = item.get_closest_marker("dhaga")
    if mark is None or not isinstance(item, pytest.Function):
        return (yield)
    former = item.obj
    item.obj = in_dhaga(former, item.name, timeout_of(mark))
    try:
        return (yield)
    finally:
        item.obj = former


MARK = Signature([Parameter("timeout", Parameter.POSITIONAL_OR_KEYWORD, default=None)])


def timeout_of(mark: pytest.Mark) -> float | None:
    """Read what a mark says, or fail the test, if that cannot be meant."""
    try:
        timeout = MARK.bind(*mark.args, **mark.kwargs).arguments.get("timeout")
    except TypeError as error:
        pytest.fail(f"@pytest.mark.dhaga takes one argument, timeout: {error}", pytrace=False)
    if timeout is None or (isinstance(timeout, int | float) and timeout > 0):
        return timeout
    pytest.fail(f"@pytest.mark.dhaga: a timeout is seconds above 0, or None, and not {timeout!r}", pytrace=False)


def in_dhaga(fn: Callable[..., Any], name: str, timeout: float | None) -> Callable[..., Any]:
    """Return a test function that calls another one in a dhaga."""
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
    """Call a test in a dhaga, and end whoever is left when that has ended. Fails if it left some, and passed."""
    from .debug import origins

    __tracebackhide__ = True
    before = everybody()
    test = spawn(call, name=name)
    with origins.recording():
        try:
            value = result_of(test, timeout)
            left = sorted(filter(counts, everybody() - before), key=age)
            told = [description(dhaga) for dhaga in left[:LONGEST_LIST]]
        finally:
            end(everybody() - before)
    if left:
        fail_leaving(name, len(left), told)
    return value


def result_of(test: Dhaga, timeout: float | None) -> Any:
    """Wait for a test. Raises: what it raises; TimeoutError, with a dump, if that comes first."""
    __tracebackhide__ = True
    try:
        with Timeout(timeout):
            return test.result()
    except TimeoutError:
        if test.is_alive():  # it is no error of its own
            fail_late(test, timeout)
        raise


def fail_late(test: Dhaga, timeout: float | None) -> NoReturn:
    """Raise TimeoutError, with what everybody is at as its note."""
    from .debug import dump

    error = TimeoutError(f"{test.name} was not done within {timeout} s")
    error.add_note(dump())
    raise error from None


# ---- who is left


def everybody() -> set[Dhaga]:
    """Return the live dhagas of all schedulers."""
    return {dhaga for scheduler in list(schedulers) for dhaga in list(scheduler.live)}


def counts(dhaga: Dhaga) -> bool:
    """Tell whether a dhaga must not be left: a daemon may, and one that ends in another OS thread right now."""
    return dhaga.is_alive() and not dhaga.daemon


def age(dhaga: Dhaga) -> int:
    return dhaga.ident


def description(dhaga: Dhaga) -> str:
    """Say who it is, and where it was spawned, if possible in code that is not Dhaga's own."""
    from .debug import origins

    stack = origins.of(dhaga)
    places = [frame for frame in stack if not frame.of_dhaga] or stack
    return f"{dhaga!r}, spawned at {places[-1]}" if places else f"{dhaga!r}"


def fail_leaving(name: str, count: int, told: list[str]) -> None:
    """Fail a test that has left dhagas over, some of whom are told one by one."""
    more = [f"... and {count - len(told)} more"] if count > len(told) else []
    pytest.fail("\n  ".join([f"{name} has left over {count} of its dhagas:", *told, *more]), pytrace=False)


def end(dhagas: Iterable[Dhaga]) -> None:
    """Cancel those who are left, and wait until they have ended, or will not."""
    for dhaga in dhagas:
        dhaga.cancel("its test is over")
    deadline = monotonic() + GRACE
    for dhaga in dhagas:
        dhaga.join(max(0.0, deadline - monotonic()))
