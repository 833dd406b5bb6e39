"""The hooks of Dhaga's pytest plugin. They import Dhaga only for a test or an option that uses Dhaga.

Where Dhaga is installed, each run of pytest imports this module through an entry point, even in projects that do not
use Dhaga. If the module were in the package, this import would load the package with asyncio and Tornado, which takes
100 ms. The functions that the hooks call are in ``dhaga.pytest_plugin``.

PYTEST_DONT_REWRITE: this module has no assert. Without this mark, pytest would warn if the module was imported before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dhaga.testing import VirtualClock

seed_before = pytest.StashKey[int | None]()


def testing() -> Any:
    """Return the module ``dhaga.testing`` if it is imported."""
    return sys.modules.get("dhaga.testing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("dhaga").addoption(
        "--dhaga-seed",
        metavar="N|random",
        type=seed_or_random,
        help="shuffle the run queues of virtual clocks by this seed; random: by another one for each test, which a "
        "failure tells",
    )


def seed_or_random(text: str) -> int | str:
    """Parse the option. Raises: ArgumentTypeError."""
    try:
        return text if text == "random" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a whole number, or random, and not {text!r}") from None


@pytest.hookimpl(tryfirst=True)  # first, because pytest_configure of a conftest.py may ask for the seed
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "dhaga(timeout=None): run the test in a dhaga, within timeout seconds, and fail it if it leaves others",
    )
    config.addinivalue_line(
        "markers",
        "dhaga_simulated(seeds=200, strategy='mixed', preempt='lines', ...): run the test with its threads by many "
        "seeds, or by --dhaga-seed N",
    )
    seed = config.getoption("--dhaga-seed")
    if seed is not None:
        import dhaga.testing  # noqa: F401
    if kit := testing():
        config.stash[seed_before] = kit.seed
        kit.seed = seed if isinstance(seed, int) else None


def pytest_unconfigure(config: pytest.Config) -> None:
    if kit := testing():
        kit.seed = config.stash.get(seed_before, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose a new seed for the test under ``--dhaga-seed random``."""
    if item.config.getoption("--dhaga-seed") == "random":
        from dhaga import pytest_plugin

        pytest_plugin.choose_seed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failure the seed that repeats the failure."""
    report = yield
    seed = getattr(testing(), "seed", None)
    if report.failed and seed is not None:
        report.sections.append(("dhaga", f"virtual clocks are shuffled: repeat it with --dhaga-seed {seed}"))
    return report


@pytest.fixture
def dhaga_clock() -> Iterator[VirtualClock]:
    """Give the test a clock that jumps to the next deadline as soon as every dhaga waits: `testing.virtual_clock`."""
    from dhaga.testing import virtual_clock

    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def dhaga_simulation() -> Any:
    """Return the simulation of a test that is marked dhaga_simulated: `dhaga_simulation.always(invariant)`."""
    from dhaga import pytest_plugin

    return pytest_plugin.CurrentSimulation()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a marked test in a dhaga, or in simulations."""
    __tracebackhide__ = True
    mark = item.get_closest_marker("dhaga")
    simulated = item.get_closest_marker("dhaga_simulated")
    if (mark is None and simulated is None) or not isinstance(item, pytest.Function):
        return (yield)
    from dhaga import pytest_plugin

    test_function = item.obj
    if simulated is not None:
        item.obj = pytest_plugin.in_simulations(test_function, item.name, simulated)
    elif mark is not None:
        item.obj = pytest_plugin.in_dhaga(test_function, item.name, pytest_plugin.timeout_of(mark))
    try:
        return (yield)
    finally:
        item.obj = test_function
