"""Eventlet's lock."""

from __future__ import annotations

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.lock import Lock
from dhaga.testing import virtual_clock


def test_it_is_held_by_one_and_released_once() -> None:
    with virtual_clock():
        lock = Lock()
        with lock:
            waiter = eventlet.spawn(lock.acquire)
            eventlet.sleep(1)
            assert lock.locked() and not waiter.dead
        assert waiter.wait() and lock.release()
        with pytest.raises(RuntimeError, match="unlocked"):
            lock.release()
