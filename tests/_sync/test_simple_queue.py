"""SimpleQueue: what it has of its own; what it shares with Queue: tests/test_queue.py."""

from __future__ import annotations

from dhaga.queue import SimpleQueue
from dhaga.testing import virtual_clock
from tests.kit.parking import parked


def test_the_repr_of_a_simple_queue_tells_it_too() -> None:
    with virtual_clock():
        queue: SimpleQueue[int] = SimpleQueue()
        d = parked(queue.get)
        assert repr(queue) == "<SimpleQueue of 0, 1 parked in get>"
        queue.put(1)
        d.join()
        queue.put(2)
        assert repr(queue) == "<SimpleQueue of 1, 0 parked in get>"
