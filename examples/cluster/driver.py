"""The driver: sends each source's task, watches the server's catalogue, and sends lost tasks again.

Only the catalogue decides what is done. A worker begins a snapshot before it reads a file, so the server also knows
which sources workers hold. When a worker dies, its drafts vanish with its connections. So the driver learns which
sources the worker held, whatever the broker does with the messages. A source is sent again

- when it was held, and for `resend_after` seconds is neither committed nor held;
- when no worker has begun it, and no source at all has moved for that long: then its message may be lost. Each time
  the driver waits twice as long.

One sent too many does no harm: the second task sees what the first has done.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from examples._late import Late
from examples.backup import client
from examples.backup.rpc import Address, Client
from examples.backup.server import MOST_NAMES
from examples.backup.wire import BackupError
from examples.backup.workers import threads

from .fleet import Fleet, snapshot_name
from .outcome import Outcome, Source
from .tasks import TASK, Report

kombu: Any = Late("kombu.exceptions")

TICK: Final = 0.2  # seconds between two looks at the catalogue
AHEAD: Final = 4000  # sources sent and not done: on files, a worker lists the whole queue for each message it takes
LOOKS: Final = 500  # at results, in one tick
MOST_FALLS: Final = 5  # of a source that was held each time: it may be what kills the workers
LATE_SECONDS: Final = 3.0  # the reports of what is committed already are waited for so long in the end
RESULTS_READ: Final = 1_000_000  # at most, where they come as messages: Celery's limit is 1,000


@dataclass(frozen=True)
class Timeouts:
    """Seconds: until a source is sent again, and until the driver gives up on a run in which nothing moves."""

    resend_after: float = 10.0
    give_up_after: float = 600.0


class Driver:
    """One run over a fleet. Used from one thread."""

    def __init__(self, app: Any, server: Address, run: str, fleet: Fleet, timeouts: Timeouts) -> None:
        unit = threads()
        self.app = app
        self.address = server
        self.timeouts = timeouts
        self.server = Client(unit, server, unit.threading.Event())
        sources = [Source(path, snapshot_name(run, path)) for path in fleet.sources]
        self.outcome = Outcome(run, sources, twice=fleet.twice)
        self.waiting = deque(sources)
        self.under_way: dict[str, Source] = {}
        self.silent: dict[str, Source] = {}  # committed, and the report is still to come
        self.moved = time.monotonic()
        self._session = secrets.token_hex(3)  # keeps results of other drivers of this run apart
        self._turn: Iterator[Source] = iter(())
        self._results = _reading(app)

    def run(self, each_tick: Callable[[Driver], None]) -> Outcome:
        """Send and watch until every source is done, or failed, or Ctrl-C."""
        began = time.monotonic()
        try:
            self._look_back()
            while self.waiting or self.under_way:
                self._feed()
                self._watch()
                self._give_up_in_time()
                each_tick(self)
                time.sleep(TICK)
            self._hear_the_late(each_tick)
        except KeyboardInterrupt:
            self.outcome.interrupted = True
        except BackupError as error:
            self.outcome.error = str(error)
        finally:
            self.outcome.seconds = time.monotonic() - began
            self.server.close()
        return self.outcome

    def recount(self) -> None:
        """Ask the catalogue what of the rest is committed after all, when a run was broken off and its workers ended.

        Raises: BackupError if the server is gone.
        """
        self.server.connect()
        for one in self._with_standing([*self.outcome.left, *self.outcome.failed]):
            one.is_held = False
        self.server.close()

    @property
    def held(self) -> int:
        """Count the sources that workers hold just now."""
        return sum(one.is_held for one in self.under_way.values())

    # ---- sending ----

    def _look_back(self) -> None:
        """Find what an earlier driver of this run has got done."""
        self.server.connect()
        for one in self._with_standing(self.outcome.sources):
            one.was_there = one.is_saved
        self.waiting = deque(one for one in self.outcome.sources if not one.is_saved)

    def _feed(self) -> None:
        while self.waiting and len(self.under_way) < AHEAD:
            one = self.waiting[0]
            self._send(one)
            self.waiting.popleft()
            self.under_way[one.name] = one

    def _send(self, one: Source) -> None:
        arguments = (one.path, one.name, self.address.host, self.address.port)
        try:
            self.app.send_task(TASK, arguments, task_id=self._task_id(one, one.sends))
        except (kombu.OperationalError, OSError) as error:
            raise BackupError(f"the broker is gone ({error})") from None
        one.sends += 1
        one.sent = time.monotonic()
        one.trouble = ""

    def _task_id(self, one: Source, number: int) -> str:
        return f"{one.name}.{self._session}.{number}"

    # ---- watching ----

    def _watch(self) -> None:
        now = time.monotonic()
        for one in self._with_standing(list(self.under_way.values())):
            self._see(one, now)
        self._hear(islice(self._in_turn(), LOOKS))
        self.outcome.most_held = max(self.outcome.most_held, self.held)
        for one in list(self.under_way.values()):
            if self._is_lost(one, now):
                self._send_again(one)

    def _with_standing(self, sources: list[Source]) -> Iterator[Source]:
        for start in range(0, len(sources), MOST_NAMES):
            some = sources[start : start + MOST_NAMES]
            found = client.standing(self.server, [one.name for one in some])
            for one, standing in zip(some, found, strict=True):
                one.standing = standing
                yield one

    def _see(self, one: Source, now: float) -> None:
        was_held, one.is_held = one.is_held, one.standing is not None and not one.is_saved
        if one.is_held:
            one.held = now
        if one.is_held is not was_held or one.is_saved:
            self.moved = now
        if one.is_saved:
            del self.under_way[one.name]
            if one.report is None:
                self.silent[one.name] = one

    def _is_lost(self, one: Source, now: float) -> bool:
        if one.trouble:
            return True
        if one.is_held:
            return False
        if one.held > one.sent:
            return now - one.held > self.timeouts.resend_after
        resend_after = self.timeouts.resend_after * float(2 ** (one.sends - 1))
        return now - max(one.sent, self.moved) > resend_after

    def _send_again(self, one: Source) -> None:
        one.falls += bool(one.trouble) or one.held > one.sent
        if one.falls >= MOST_FALLS:
            trouble = one.trouble or "the workers that took it ended without a word"
            self._fail(one, f"cannot back up {one.path}: {trouble}, {one.falls} times: see the workers' logs")
        else:
            self._send(one)

    def _fail(self, one: Source, reason: str) -> None:
        one.failure = reason
        self.moved = time.monotonic()
        self.under_way.pop(one.name, None)

    def _give_up_in_time(self) -> None:
        if time.monotonic() - self.moved > self.timeouts.give_up_after and not self.held:
            raise BackupError(f"nothing has moved for {self.timeouts.give_up_after:.0f} s: are workers running?")

    # ---- hearing ----

    def _in_turn(self) -> Iterator[Source]:
        """Yield in turn the sources whose tasks may have results."""
        for _ in range(len(self.under_way) + len(self.silent)):
            one = next(self._turn, None)
            if one is None:
                self._turn = iter([*self.silent.values(), *self.under_way.values()])
                one = next(self._turn)
            yield one

    def _hear(self, sources: Iterable[Source]) -> None:
        for one in sources:
            for number in range(one.sends):
                self._take(one, self._results(self._task_id(one, number)))

    def _take(self, one: Source, told: dict[str, Any] | None) -> None:
        match told:
            case {"status": "SUCCESS", "result": dict(values)}:
                report = Report(**values)
                if one.report is None or one.report.was_there:
                    one.report = report
                self.silent.pop(one.name, None)
            case {"status": "FAILURE", "result": BackupError() as error}:
                if one.name in self.under_way:
                    self._fail(one, str(error))
            case {"status": "FAILURE", "result": error}:  # what no task should raise: a worker lost, a fault in here
                one.trouble = repr(error)

    def _hear_the_late(self, each_tick: Callable[[Driver], None]) -> None:
        deadline = time.monotonic() + LATE_SECONDS
        while self.silent and time.monotonic() < deadline:
            self._hear(list(self.silent.values()))
            each_tick(self)
            time.sleep(TICK if self.silent else 0)


def _reading(app: Any) -> Callable[[str], dict[str, Any] | None]:
    """Return a function that reads a task's result once. It returns None if there is no result yet."""
    backend: Any = app.backend
    options = {"backlog_limit": RESULTS_READ} if app.conf.result_backend == "rpc://" else {}

    def read(task_id: str) -> dict[str, Any] | None:
        try:
            told: dict[str, Any] = backend.get_task_meta(task_id, **options)
            if told["status"] not in ("SUCCESS", "FAILURE"):
                return None
            backend.forget(task_id)
        except Exception:  # half written, or the broker is away: the catalogue tells what counts
            return None
        return told

    return read
