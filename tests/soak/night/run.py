"""One night: clients ask ``serve``, troubles come and go, and what its processes have is recorded all along.

In the first half workers are replaced by reloads. In the second, the calm half, they stay, and must stay flat.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.machine import surroundings
from tests.packages.collector import Collector
from tests.soak.ledger import Ledger
from tests.soak.night.clients import SERVICES, Client
from tests.soak.night.record import Record, Sample
from tests.soak.night.relay import Relay
from tests.soak.night.served import Served, agent, usage

CLIENTS = 6
SAMPLE_EVERY, TELL_EVERY = 10.0, 60.0
RELOAD_EVERY, RESTART_EVERY = 300.0, 240.0
"""Seconds between two troubles of a kind, in a night that lasts hours. A short one has each kind several times."""

OUTAGE = 6.0
"""Seconds for which a service is away, at most."""

STALL = 120.0
"""Seconds without a right answer after which the run has failed. An outage lets views wait for 20 s at most."""

END = 100.0
"""Seconds that a client may take to end, after its last request."""

PACKAGES = ("flask", "psycopg", "psycopg2-binary", "sqlalchemy", "redis", "opentelemetry-instrumentation")
ADDRESSES = {
    "postgres": ("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "redis": ("DHAGA_REDIS", "redis://127.0.0.1:6379/0"),
}
Tell = Callable[[str], object]


class Night:
    """The whole of it. ``seed`` decides what clients ask and how long services are away."""

    def __init__(self, seconds: float, seed: int, record: Path | None, app: str, tell: Tell) -> None:
        self.seconds = seconds
        self.choose = random.Random(seed)
        self.seed = seed
        self.app = app
        self.tell = tell
        self.ledger = Ledger()
        self.record = Record(record)
        self.over = threading.Event()
        self.stack = ExitStack()

    def run(self) -> bool:
        """Do it. Returns: whether nothing went wrong."""
        with self.stack:
            try:
                self.begin()
                self.go_on()
            except Exception as error:
                self.ledger.fail("the run itself failed", error)
            finally:
                self.end()
        return self.say_how_it_was()

    # ---- begin and end

    def begin(self) -> None:
        """Start the relays, the service, its clients and the troubles."""
        self.relays = {name: self.relay(name) for name in ADDRESSES}
        self.collector = self.stack.enter_context(Collector())
        spans = self.collector.environment | {"OTEL_BSP_SCHEDULE_DELAY": "1000"} if agent() else {}
        addresses = {f"NIGHT_{name.upper()}": relay.url for name, relay in self.relays.items()}
        self.served = Served(self.app, spans | addresses, self.ledger)
        self.stack.callback(self.served.end)
        self.record.tell(seconds=self.seconds, seed=self.seed, agent=bool(agent()), **surroundings(*PACKAGES))
        self.clients = [
            Client(self.served.address, self.relays, self.ledger, f"{self.seed} {number}") for number in range(CLIENTS)
        ]
        for client in self.clients:
            client.thread.start()
        self.troubles = [
            threading.Thread(target=self.make_troubles, args=(name, *trouble), name=name, daemon=True)
            for name, trouble in self.kinds().items()
        ]
        for thread in self.troubles:
            thread.start()

    def relay(self, name: str) -> Relay:
        variable, address = ADDRESSES[name]
        relay = Relay(os.environ.get(variable, address), name)
        relay.start()
        self.stack.callback(relay.stop)
        return relay

    def end(self) -> None:
        """Stop what was started, the service last, and look whether it stayed flat."""
        self.over.set()
        clients = getattr(self, "clients", [])
        for client in clients:
            client.over.set()
        for thread in [client.thread for client in clients] + getattr(self, "troubles", []):
            thread.join(END)
            if thread.is_alive():
                self.ledger.fail(f"{thread.name} has not ended in {END:g} s")

    # ---- the time between

    def go_on(self) -> None:
        """Take samples, and tell how it goes, until the time is over, or an invariant is broken.

        A short night goes on until each view has been answered.
        """
        told = 0.0
        every = min(SAMPLE_EVERY, self.seconds / 20)
        for number in itertools.count(1):
            self.sample()
            now = self.record.now()
            if now >= told + TELL_EVERY:
                told = now
                self.tell(f"{now:6.0f} s: {self.state()}")
            if self.stalls():
                self.ledger.fail(f"no right answer came for {STALL:g} s")
            enough = now >= self.seconds and all(self.ledger.operations[view] for view in SERVICES)
            if enough or self.ledger.failed.wait(max(0.1, number * every - now)):
                break
        for verdict in self.record.verdicts(
            self.served.current() | {self.served.process.pid}, self.seconds / 2, self.record.now()
        ):
            self.ledger.fail(verdict)

    def stalls(self) -> bool:
        """Tell whether nothing goes on any more."""
        return time.monotonic() > max(self.ledger.operations.last.values(), default=self.record.began) + STALL

    def sample(self) -> None:
        """Record what each process has. A worker of a generation that has just ended is no longer there."""
        dhagas = self.served.dhagas()
        for pid in (self.served.process.pid, *dhagas):
            role = "worker" if pid in dhagas else "master"
            try:
                self.record.add(Sample(self.record.now(), pid, role, dhagas=dhagas.get(pid, 0), **usage(pid)))
            except OSError:
                pass

    def kinds(self) -> dict[str, tuple[float, Callable[[], object], bool]]:
        """Return the troubles: how often each comes, how it is made, and whether in the first half only."""
        restart_every = min(RESTART_EVERY, self.seconds / 6)
        return {
            "reload": (min(RELOAD_EVERY, self.seconds / 8), self.served.reload, True),
            "redis away": (restart_every, lambda: self.restart("redis"), False),
            "postgres away": (restart_every * 1.1, lambda: self.restart("postgres"), False),
        }

    def restart(self, name: str) -> None:
        self.relays[name].restart(min(OUTAGE, self.seconds / 30) * self.choose.uniform(0.2, 1.0))

    def make_troubles(self, name: str, every: float, make: Callable[[], object], early: bool) -> None:
        """Make troubles of one kind until the end, or until the calm half."""
        last = self.seconds / 2 - every / 2 if early else self.seconds - every / 4
        for moment in itertools.takewhile(lambda moment: moment < last, itertools.count(every, every)):
            if self.over.wait(moment - self.record.now()):
                return
            began = time.monotonic()
            try:
                make()
            except Exception as error:
                self.ledger.fail(f"a trouble could not be made: {name}", error)
                return
            self.record.note(round(moment, 1), name, time.monotonic() - began)
            self.ledger.troubles.add(name)

    # ---- what to tell

    def state(self) -> str:
        """Say how far it is."""
        workers = [each for each in self.record.samples[-3:] if each.role == "worker"]
        has = "; ".join(
            f"{each.pid}: {each.memory / 2**20:.1f} MB, {each.fds} fds, {each.threads} threads, {each.dhagas} dhagas"
            for each in workers
        )
        return f"{self.ledger.operations}; troubles: {self.ledger.troubles}; {has}"

    def say_how_it_was(self) -> bool:
        """Tell, and record, what has come of it. Returns: whether it was good."""
        if agent() and not self.ledger.failures:
            self.look_for_spans()
        right, troubles = self.ledger.operations.total(), self.ledger.troubles.total()
        failures = [failure.headline() for failure in self.ledger.failures]
        self.record.tell(right=right, troubles=str(self.ledger.troubles), ran=self.record.now(), failures=failures)
        self.record.close()
        for failure in self.ledger.failures[:5]:
            self.tell(str(failure))
        if failures:
            self.tell("\n".join(["the log's last lines:", *getattr(getattr(self, "served", None), "log", [])]))
        outcome = "FAILED" if failures else "passed"
        self.tell(
            f"== night of {self.seconds:g} s, seed {self.seed}, {outcome}: {right:,} right answers, "
            f"{len(failures)} failures, {troubles:,} troubles ({self.ledger.troubles})"
        )
        return not failures

    def look_for_spans(self) -> None:
        """See that each right answer has left its span, also those of workers that have ended since."""
        for view in SERVICES:
            come, right = self.collector.spans[f"GET /{view}/<token>"], self.ledger.operations[view]
            if come < right:
                self.ledger.fail(f"only {come:,} spans came of {right:,} right answers of {view}")
