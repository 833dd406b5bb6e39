"""The mutex of a Queue, as a program meets it that parks while it holds one."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dhaga
from dhaga._sync import mutex
from dhaga.queue import LifoQueue, PriorityQueue, Queue
from dhaga.testing import virtual_clock
from tests.kit.parking import parked


@pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue])
def test_a_caller_of_a_queue_whose_mutex_is_held_by_a_parked_dhaga_waits_and_others_run(kind: Any) -> None:
    def holds() -> None:
        with queue.mutex:
            dhaga.sleep(1)

    with virtual_clock() as clock:
        queue = kind()
        parked(holds)
        put = dhaga.spawn(queue.put, 1)
        cancelled = dhaga.spawn(queue.put, 2)
        dhaga.sleep(0.5)
        assert put.reason == "queue.mutex"
        cancelled.cancel()
        put.join()
        assert 1 <= clock() < 1.1
        cancelled.join()
        queue.put(3)
        assert sorted(queue.get() for _ in range(queue.qsize())) == [1, 2, 3]


def test_a_callback_does_not_wait_for_ever_for_a_mutex_whose_holder_has_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutex, "FREEZE_SECONDS", 0.01)
    queue: Queue[int] = Queue()
    errors: list[str] = []

    def put() -> None:
        with pytest.raises(RuntimeError, match="would freeze the OS thread") as info:
            queue.put(1)
        errors.append(str(info.value))

    with virtual_clock():
        with queue.mutex:
            dhaga.current().scheduler.loop.call_soon(put)
            dhaga.sleep(1)
        assert errors and queue.empty()


def test_an_os_thread_waits_for_a_mutex_whose_holder_has_parked() -> None:
    queue: Queue[int] = Queue()
    thread = threading.Thread(target=queue.put, args=(1,))
    with queue.mutex:
        thread.start()
        dhaga.sleep(0.05)
    thread.join()
    assert queue.get() == 1
