"""Where dhagas run: schedulers with OS threads of their own, and a guest on a loop that somebody else runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dhaga
from dhaga.testing import leftovers

if TYPE_CHECKING:
    from tests.soak.run import Run

BEAT = 0.05
"""Seconds between two beats of a place's pulse: it shows that nobody is starved there."""

PATIENCE = 30.0
"""Seconds that a place has to start, and to be empty once all is over."""


class Place:
    """A scheduler in an OS thread of its own."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self.keepers: list[dhaga.Dhaga[None]] = []
        self.scheduler = self.start()

    def __repr__(self) -> str:
        return f"<Place {self.name}>"

    def start(self) -> dhaga.Scheduler:
        """Return the scheduler, which runs."""
        return dhaga.Scheduler(self.name).start()

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call something in a dhaga there. Returns: what it does."""
        return self.scheduler.spawn(fn, *args).result(PATIENCE)

    def keep(self, fn: Callable[..., None], *args: Any, name: str) -> None:
        """Have a dhaga there that lives as long as the run does."""
        self.keepers.append(self.scheduler.spawn(fn, *args, name=name))

    def beat(self) -> None:
        """Be the pulse. From: a dhaga here."""
        while not self.run.over:
            self.run.pulses.add(self.name)
            dhaga.sleep(BEAT)

    def left(self) -> list[str]:
        """Name what is left here."""
        return [f"{problem} at {self.name}" for problem in leftovers(self.scheduler)]

    def stop(self) -> None:
        """End the thread."""
        self.scheduler.stop(PATIENCE)


class Guest(Place):
    """A scheduler on an event loop with business of its own, which must go on, too."""

    def start(self) -> dhaga.Scheduler:
        self.ready = threading.Event()
        self.thread = threading.Thread(target=lambda: self.run.run_loop(self.host()), name=self.name, daemon=True)
        self.thread.start()
        if not self.ready.wait(PATIENCE):
            raise TimeoutError(f"the host of {self.name} has not started")
        return self.found

    async def host(self) -> None:
        self.loop, self.ended = asyncio.get_running_loop(), asyncio.Event()
        self.found = dhaga.spawn(lambda: None).scheduler
        task = asyncio.create_task(self.do_own_business())
        self.ready.set()
        await self.ended.wait()
        await task

    async def do_own_business(self) -> None:
        """Sleep, and await dhagas, as a program would that has some of both."""
        number = 0
        while not self.run.over:
            number += 1
            answer = await dhaga.spawn(self.add_one, number)
            if answer != number + 1:
                self.run.ledger.fail(f"a coroutine got {answer} for {number + 1} from a dhaga")
            self.run.pulses.add(f"host of {self.name}")
            await asyncio.sleep(BEAT)

    def add_one(self, number: int) -> int:
        async def add() -> int:
            await asyncio.sleep(0)
            return number + 1

        return dhaga.await_(add())

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            raise TimeoutError(f"the host of {self.name} does not end")
