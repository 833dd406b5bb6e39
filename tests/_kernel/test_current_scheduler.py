"""The current scheduler: that of the caller, made where there is none yet."""

from __future__ import annotations

import asyncio
import threading

import dhaga
from dhaga._kernel.process.current_scheduler import current_scheduler


def test_main_code_and_its_dhagas_share_one_that_is_made_once() -> None:
    first = current_scheduler()
    assert current_scheduler() is first
    assert dhaga.spawn(current_scheduler).result() is first


def test_each_thread_has_its_own_and_a_dhaga_has_that_which_it_was_spawned_on() -> None:
    found: list[dhaga.Scheduler] = []
    thread = threading.Thread(target=lambda: found.append(current_scheduler()))
    thread.start()
    thread.join()
    with dhaga.Scheduler("elsewhere") as elsewhere:
        assert elsewhere.spawn(current_scheduler).result() is elsewhere
    assert found[0] is not current_scheduler()


def test_a_loop_that_runs_gets_one_guest_and_the_next_loop_another() -> None:
    async def twice() -> list[dhaga.Scheduler]:
        return [current_scheduler(), current_scheduler(), await dhaga.spawn(current_scheduler)]

    former = None
    for _ in range(2):
        one, two, three = asyncio.run(twice())
        assert one is two is three and one is not former
        assert one.name.startswith("guest of")
        former = one
