"""Run-queue entries that are calls on the hub."""

from __future__ import annotations

import threading
from contextvars import Context, ContextVar

import dhaga
from dhaga._kernel.run import entries


def test_the_hub_has_no_context_of_the_code_that_made_or_woke_its_scheduler() -> None:
    """The loop keeps a context with each handler: the first request's would last as long as the scheduler."""
    user: ContextVar[object] = ContextVar("user")
    seen: list[object] = []
    made = threading.Event()

    class Look(entries.HubCall):
        def __init__(self, scheduler: dhaga.Scheduler) -> None:
            self.scheduler = scheduler

        def make_call(self) -> None:
            seen.append(user.get(None))
            made.set()

    def request(scheduler: dhaga.Scheduler) -> None:
        user.set("alice")
        scheduler.run_queue.append(Look(scheduler))
        scheduler.wake_loop()
        assert made.wait(20)

    with dhaga.Scheduler("other") as scheduler:
        Context().run(request, scheduler)
    assert seen == [None]
