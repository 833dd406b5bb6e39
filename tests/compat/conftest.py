"""What tests of gevent's and eventlet's names share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dhaga.testing import VirtualClock, virtual_clock


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    """Run the test on a virtual clock."""
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def all_end() -> Iterator[None]:
    """Wait, behind the test, for the greenlets that it has left."""
    yield
    from dhaga.compat import gevent

    assert gevent.wait(timeout=30)
