"""Shares: in what share of the time each one runs, measured at each switch as long as somebody asks.

That costs some 0.6 µs a switch, and nothing when nobody asks.

Looks from another thread, a hundred a second, would cost less and tell too little: they come about when the interpreter
lock is given away, and so hardly ever in the middle of a turn. Of dhagas that compute for 2 ms in every 5 they saw 3 %.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from dhaga.kernel.scheduler import Scheduler, schedulers

from .interest import Interest
from .observers import leave, observe
from .watchdog import pulse_of, who_runs

WINDOW = 1.0
"""The shares are of the last one to two times these seconds."""


class Ledger:
    """How long each greenlet of one scheduler has run since a moment."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.pulse = pulse_of(scheduler)
        self.began = self.since = perf_counter()
        self.runs: Any = None  # None until the first switch is seen
        self.spent: dict[Any, float] = {}
        self.former: dict[Any, float] = {}
        self.seconds = 0.0  # that `former` is of
        observe(scheduler, self.switched)

    def switched(self, event: str, between: tuple[Any, Any]) -> None:
        now = perf_counter()
        origin, self.runs = between
        spent = self.spent
        spent[origin] = spent.get(origin, 0.0) + now - max(self.since, self.began)
        self.since = now

    def turn(self, now: float) -> None:
        """Begin anew after a while; what was measured before counts once more."""
        if now - self.began >= WINDOW:
            self.former, self.seconds = self.spent, now - self.began
            self.spent = {}
            self.began = now

    def shares(self, now: float) -> dict[int, float]:
        """Return the share of each by its ident; the hub, where also the sleep is, not among them."""
        seconds = now - self.began + self.seconds
        if self.runs is None:  # nobody has parked yet
            return self.of_a_holder()
        spent = dict(self.spent)
        for who, before in dict(self.former).items():
            spent[who] = spent.get(who, 0.0) + before
        spent[self.runs] = spent.get(self.runs, 0.0) + max(0.0, now - max(self.since, self.began))
        main = self.scheduler.main
        idents = {getattr(main, "greenlet", main): getattr(main, "ident", 0)}
        shares = {getattr(who, "ident", idents.get(who)): min(1.0, spent[who] / seconds) for who in spent}
        return {ident: share for ident, share in shares.items() if ident is not None}

    def of_a_holder(self) -> dict[int, float]:
        """Return who has held the thread since the last question: it has not come to telling of switches yet."""
        former, self.pulse = self.pulse, pulse_of(self.scheduler)
        holder = who_runs(self.scheduler) if former is not None and self.pulse == former else None
        return {} if holder is None else {holder.ident: 1.0}


class Shares:
    """Measure who runs how much, as long as somebody asks."""

    def __init__(self) -> None:
        self.ledgers: dict[Scheduler, Ledger] = {}
        self.interest = Interest("shares", self.end)

    def now(self) -> dict[int, float]:
        """Return in what share of the last seconds each one ran, by ident; empty when that has only just been asked.

        Who runs holds its OS thread: it computes, or makes a call that blocks.
        """
        with self.interest:
            self.follow()
            now = perf_counter()
            found: dict[int, float] = {}
            for ledger in self.ledgers.values():
                found |= ledger.shares(now)
                ledger.turn(now)
            return found

    def follow(self) -> None:
        """Have a ledger for each scheduler that lives."""
        for scheduler in schedulers - self.ledgers.keys():
            self.ledgers[scheduler] = Ledger(scheduler)
        for scheduler in self.ledgers.keys() - schedulers:
            del self.ledgers[scheduler]

    def end(self) -> None:
        """Measure no more."""
        for scheduler, ledger in self.ledgers.items():
            leave(scheduler, ledger.switched)
        self.ledgers.clear()
