"""Plain OS threads as waiters: they block, wake others, and are woken."""

from __future__ import annotations

import threading
from typing import Any

import dhaga


def test_os_threads_wake_dhagas_and_main_code_that_start_them() -> None:
    def parks(n: int) -> Any:
        me = dhaga.current()
        return dhaga.park("thread", start=threading.Thread(target=me.wake, args=(n,)).start)

    assert [parks(n) for n in range(20)] == list(range(20))
    assert [d.result() for d in [dhaga.spawn(parks, n) for n in range(20)]] == list(range(20))
    with dhaga.Scheduler() as scheduler:
        assert [d.result() for d in [scheduler.spawn(parks, n) for n in range(20)]] == list(range(20))


def test_a_plain_thread_that_parks_gets_a_scheduler_and_its_waits_are_its_own() -> None:
    seen: list[object] = []

    def thread_code() -> None:
        me = dhaga.current()
        timer = threading.Timer(0.01, me.wake, ("by a timer",))
        seen.append(dhaga.park("x", start=timer.start))  # started earlier, it may fire before the park
        timer.join()
        seen.append(me.scheduler is not main.scheduler)
        seen.append(dhaga.spawn(lambda: dhaga.sleep(0.001) or threading.current_thread() is thread).result())

    main = dhaga.current()
    thread = threading.Thread(target=thread_code)
    thread.start()
    thread.join()
    assert seen == ["by a timer", True, True]
