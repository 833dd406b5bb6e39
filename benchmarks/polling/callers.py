"""Callers that share one output: how many lines are written, and how long does a call take?

Lines are counted while all callers write as fast as they can. The time of a call is measured at a rate that every way
can hold, 2,000 lines a second for all callers together. Each caller's lines are due at even intervals. If a call begins
late, because the preceding call took so long, its time is measured from when it was due. Otherwise many quick calls
would hide the few slow ones. Each run checks that every line has arrived in one piece.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.polling.line_writers import SHARING
from benchmarks.polling.outputs import LIBRARIES, LINE, OUTPUTS, Library, Write
from dhaga import Scheduler

PACE = 2000
"""Lines per second of all callers together."""

HEAD_START = 0.0001
"""Seconds per caller until the first line is due, because 1,000 threads need some time to wake."""

Work = Callable[[Write, int], None]
"""The work of a caller. Arguments: the function that writes, and the caller's number."""


@dataclass
class Callers:
    """Callers that write for a number of seconds, and the lines and waits that they have counted."""

    kit: Library
    number: int
    seconds: float
    began: float = 0.0
    lines: list[int] = field(default_factory=list)
    waits: list[list[float]] = field(default_factory=list)
    fault: BaseException | None = None

    def flat_out(self, say: Write, number: int) -> None:
        """Write as fast as possible until the time is up, and record the number of lines."""
        lines, going_on = 0, True
        self.wait_until(self.began)
        while going_on:
            say(LINE)
            lines += 1
            self.kit.give_way()
            going_on = time.monotonic() < self.began + self.seconds and self.fault is None
        self.lines.append(lines)

    def in_pace(self, say: Write, number: int) -> None:
        """Write each line when it is due, and record the time of each call."""
        mine: list[float] = []
        for line in range(number, int(PACE * self.seconds), self.number):
            if self.fault is not None:
                break
            wanted = self.wait_until(self.began + line / PACE)
            say(LINE)
            mine.append(time.monotonic() - wanted)
        self.lines.append(len(mine))
        self.waits.append(mine)

    def wait_until(self, due: float) -> float:
        """Sleep until ``due``, unless it has passed. Returns: the time from which the call's duration is measured."""
        now = time.monotonic()
        if now >= due:
            return due
        self.kit.sleep(due - now)
        return time.monotonic()

    def call(self, go: Any, work: Work, say: Write, number: int) -> None:
        """Begin together with all other callers. If the output fails, end all callers."""
        go.wait()
        try:
            work(say, number)
        except OSError as error:
            self.fault = error

    def go_on(self, work: Work, way: Any) -> float:
        """Run all callers. Returns: seconds until the last line was written. Raises: the error of the output."""
        go, thread = self.kit.threading.Event(), self.kit.threading.Thread
        calls = [(go, work, way.say(), number) for number in range(self.number)]
        threads = [thread(target=self.call, args=each, daemon=True) for each in calls]
        try:
            for each in threads:
                each.start()
            self.began = time.monotonic() + HEAD_START * self.number
            go.set()
            join(threads)
        except BaseException as error:  # a Ctrl-C
            self.fault = error
            go.set()
            join(threads)
        way.close()
        if self.fault is not None:
            raise self.fault
        return time.monotonic() - self.began


def join(threads: list[Any]) -> None:
    """Join all threads that have been started."""
    for each in threads:
        if each.is_alive():
            each.join()


def _run(library: Library, output: str, way: str, callers: Callers, work: Work) -> float:
    """Let the callers write. Returns: the seconds that it took. Raises: AssertionError if a line was lost or torn."""
    with OUTPUTS[output](library) as (write, arrived):
        took = callers.go_on(work, SHARING[way](library, write))
    lines = sum(callers.lines)
    assert arrived == [lines * len(LINE), lines], f"{lines} lines were written; bytes and lines arrived: {arrived}"
    return took


def _measured(library: Library, output: str, way: str, number: int, seconds: float) -> dict[str, float]:
    quick, steady = (Callers(library, number, seconds) for _ in range(2))
    took = _run(library, output, way, quick, quick.flat_out)
    _run(library, output, way, steady, steady.in_pace)
    waits = sorted(itertools.chain(*steady.waits))
    return {
        "rate": sum(quick.lines) / took,
        "p50": waits[len(waits) // 2],
        "p99": waits[len(waits) * 99 // 100],
        "max": waits[-1],
    }


def written(library: str, output: str, way: str, callers: int, seconds: float) -> dict[str, float]:
    """Measure callers of one output. Returns: lines per second, and percentiles of the times of calls, in seconds."""
    arguments = (LIBRARIES[library], output, way, callers, seconds)
    if library == "threads":
        return _measured(*arguments)
    with Scheduler(name="callers") as scheduler:
        return scheduler.spawn(_measured, *arguments).result()
