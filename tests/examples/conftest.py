"""Servers for the tests of the backup, over each unit of concurrency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.backup.server import serving
from examples.backup.workers import UNITS, Unit
from tests.examples.kit import Service


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):  # `in item.path.parents` took 2 s for all tests
            item.add_marker(pytest.mark.once)


@pytest.fixture(params=["dhagas", pytest.param("threads", marks=pytest.mark.slow)])
def unit(request: pytest.FixtureRequest) -> Unit:
    """The test runs over each unit of concurrency; over threads, there to compare with, in ``make test-slow`` alone."""
    return UNITS[request.param]()


@pytest.fixture
def serve(unit: Unit, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Start a server in this process; they all end with the test."""
    with ExitStack() as stack:

        def start(token: str = "", root: Path = tmp_path / "store") -> Service:
            address = stack.enter_context(serving(unit, root, ("127.0.0.1", 0), token, 2))
            return Service(unit, root, address, token)

        yield start


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    """One server in this process."""
    return serve()
