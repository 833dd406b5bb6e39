"""One run: whole services together in one process, on two schedulers and a guest loop, under trouble all along."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import logging
import platform
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import dhaga
from dhaga import testing
from dhaga.threading import Lock
from tests.soak.excuses import Cuts, Shortage
from tests.soak.ledger import Ledger, Tally
from tests.soak.machine import MB, Memory, dhagas_in_memory, fds_of_run, live_dhagas, memory, what_is
from tests.soak.places import Guest, Place
from tests.soak.troubles import Troubles
from tests.soak.watch import Listener, Watch

if TYPE_CHECKING:
    from tests.soak.attempts import Scenario

TELL_EVERY = 10.0
SAMPLE_EVERY = 0.5
"""Seconds between two lines, and between two samples of the memory."""

PATIENCE = 30.0
"""Seconds that those who keep the load up have to end."""

TIDY = 5.0
"""Seconds that what is left over has to go, once all is stopped."""

LOGGERS = ("dhaga", "asyncio")


def say(line: str) -> None:
    print(line, flush=True)


class Run:
    """The load, the troubles and the watch over both, for so many seconds. The seed decides all choices.

    It does not decide when the OS switches threads: the same seed is the same load, not the same run.
    """

    def __init__(
        self, kinds: Sequence[type[Scenario]], seconds: float, seed: int, tell: Callable[[str], object] = say
    ) -> None:
        self.kinds = kinds
        self.seconds = seconds
        self.seed = seed
        self.tell = tell
        self.name = f"of {seconds:g} s, seed {seed},"
        self.ledger = Ledger()
        self.pulses = Tally()
        self.cuts, self.shortage = Cuts(), Shortage()
        self.descriptors = Lock()  # held while there are none
        self.victims: set[Any] = set()
        self.memory = Memory()
        self.over = False
        self.over_since = 0.0
        self.places: list[Place] = []
        self.scenarios: list[Scenario] = []

    def run(self) -> None:
        """Do it all. If it fails, it does not return: see ``watch.py``."""
        self.run_loop(asyncio.sleep(0))  # uvloop opens descriptors the first time, for good
        dhaga.spawn(dhaga.sleep).join()  # so does the scheduler of the main code
        threads, fds = testing.other_threads(), fds_of_run()
        watch, listener = Watch(self), Listener(self)
        signal.signal(signal.SIGTERM, lambda *_: self.ledger.fail("terminated from outside"))
        for name in LOGGERS:
            logging.getLogger(name).addHandler(listener)
        try:
            self.load()
            self.must_be_empty(threads | {watch.thread}, fds)
        except Exception as error:
            self.ledger.fail("the run itself failed", error)
        finally:
            watch.stop()
            for name in LOGGERS:
                logging.getLogger(name).removeHandler(listener)
        if not self.ledger.failures:
            self.tell(f"{self.state()}\n== soak {self.name} passed: {self.summary()}")

    def run_loop(self, main: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a program does that is built on asyncio, or, by odd seeds, on uvloop."""
        if self.seed % 2 and importlib.util.find_spec("uvloop"):
            import uvloop

            uvloop.run(main)
        else:
            asyncio.run(main)

    # ---- the load

    def load(self) -> None:
        """Start everything, wait, and stop everything."""
        self.places = [Place(self, "left"), Place(self, "right"), Guest(self, "guest")]
        self.scenarios = [kind(self) for kind in self.kinds]
        for scenario in self.scenarios:
            scenario.done(0)  # from now on the watch misses it
            for place in self.places:
                scenario.open(place)
        for place in self.places:
            place.keep(place.beat, name="pulse")
            for scenario in self.scenarios:
                for number in range(scenario.width):
                    place.keep(scenario.keep, place, number, name=f"{scenario.name} {number} at {place.name}")
        troubles = Troubles(self)
        troubles.start()
        self.wait()
        self.stop(troubles)

    def wait(self) -> None:
        """Let it run for its time, and tell how it goes."""
        began = now = time.monotonic()
        told = began
        while now < began + self.seconds:
            dhaga.sleep(min(SAMPLE_EVERY, began + self.seconds - now))
            now = time.monotonic()
            with self.descriptors:
                self.memory.note(now - began)
            if now >= told + TELL_EVERY:
                told = now
                self.tell(f"{now - began:4.0f} s: {self.state()}")

    def stop(self, troubles: Troubles) -> None:
        self.over_since = time.monotonic()
        self.over = True
        for place in self.places:
            for keeper in place.keepers:
                keeper.result(PATIENCE)
        troubles.stop()
        for scenario in self.scenarios:
            scenario.close()

    # ---- the end

    def must_be_empty(self, threads: set[Any], fds: set[int]) -> None:
        """Look for what is left when all has been stopped."""
        self.must_become(lambda: [problem for place in self.places for problem in place.left()])
        self.leave_places()
        self.must_become(lambda: testing.leftovers(self.own_scheduler()))
        self.must_become(lambda: sorted(map(repr, testing.other_threads() - threads)))
        self.must_become(lambda: list(map(what_is, sorted(fds_of_run() - fds))))
        gc.collect()
        self.must_become(lambda: [f"{n} dhagas in memory"] if (n := dhagas_in_memory()) else [])
        if verdict := self.memory.verdict(self.seconds):
            self.ledger.fail(verdict)

    def leave_places(self) -> None:
        """Stop those who ran there, and hold on to nothing of it."""
        for place in self.places:
            place.stop()
        self.places, self.scenarios, self.cuts = [], [], Cuts()

    def own_scheduler(self) -> dhaga.Scheduler:
        scheduler: dhaga.Scheduler = dhaga.current().scheduler
        return scheduler

    def must_become(self, problems: Callable[[], list[str]]) -> None:
        """Wait until nothing is left over, for a while."""
        deadline = time.monotonic() + TIDY
        while (left := problems()) and time.monotonic() < deadline:
            dhaga.sleep(0.05)
        if left:
            self.ledger.fail(f"left over: {', '.join(left[:20])}")

    # ---- what to tell

    def servers(self) -> list[Any]:
        """Return those whose connections can be cut."""
        return [server for scenario in self.scenarios for server in scenario.servers]

    def state(self) -> str:
        """Say how far it is, and what the process has."""
        with self.descriptors:
            has = f"{memory() / MB:.1f} MB, {len(fds_of_run())} fds, {live_dhagas()} dhagas"
        return f"{self.progress()}; {has}"

    def progress(self) -> str:
        """Say how much was done, of what."""
        return f"{self.ledger.operations}; troubles: {self.ledger.troubles}"

    def summary(self) -> str:
        """Say what has come of it."""
        operations, troubles = self.ledger.operations.total(), self.ledger.troubles.total()
        grown = (
            f"memory {self.memory.growth(self.seconds):+.1f} MB" if len(self.memory.samples) > 9 else "memory unseen"
        )
        return f"{operations:,} operations, {troubles:,} troubles, {grown}, Python {platform.python_version()}"
