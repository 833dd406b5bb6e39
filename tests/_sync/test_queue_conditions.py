"""The conditions of a queue, which programs wait for and notify."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.queue import LifoQueue, PriorityQueue, Queue
from dhaga.testing import settle, virtual_clock
from tests.kit.parking import parked


@pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue])
def test_a_notify_of_a_program_does_not_end_a_join_with_unfinished_tasks(kind: Any) -> None:
    with virtual_clock():
        queue = kind()
        queue.put(1)
        joiner = parked(queue.join)
        with queue.all_tasks_done:
            queue.all_tasks_done.notify_all()
        settle()
        assert joiner.is_alive()
        queue.get()
        queue.task_done()
        joiner.join()
