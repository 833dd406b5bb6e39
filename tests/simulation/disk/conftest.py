"""One patch for all simulations of a file: making it takes longer than a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dhaga.simulation._standard.standard import replaced


@pytest.fixture(scope="module", autouse=True)
def patched_once() -> Iterator[None]:
    with replaced():
        yield
