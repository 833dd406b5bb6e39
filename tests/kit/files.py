"""Text and pools for the tests of files."""

from __future__ import annotations

import threading

import dhaga
from dhaga.testing import settle

LINES = [f"line {n} {'x' * (n % 97)}\n" for n in range(9000)]
"""More text than a buffer holds."""


class Occupied:
    """A pool whose only thread is busy until the end of the block."""

    def __init__(self, pool: dhaga.OffloadPool) -> None:
        self.gate = threading.Event()
        self.call = dhaga.spawn(pool.offload, self.gate.wait, 30)
        settle()  # the call is queued now, before all later calls

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.call.join(30)
