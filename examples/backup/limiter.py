"""Two limits: the bandwidth that an administrator sets, and the number of files in flight needed to use it.

Both get the time and byte counts from their callers. Other modules handle sockets and workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .workers import Unit

CREDIT: Final = 0.2  # maximum seconds of bandwidth to catch up after a stall
PIECES_A_SECOND: Final = 100
PIECE_SIZES: Final = (1024, 64 * 1024)  # smaller pieces would cost more in calls than they smooth


class Bandwidth:
    """A token bucket for any number of workers in any number of OS threads.

    A worker with bytes to send reserves the next free time slot and sleeps until the slot begins. Slots follow each
    other without gaps, so a late wake delays only its own piece, but not later pieces.
    """

    def __init__(self, rate: float, unit: Unit) -> None:
        """Limit the bandwidth to `rate` bytes per second."""
        self.rate = rate
        self.passed = 0
        self.piece = int(min(max(rate / PIECES_A_SECOND, PIECE_SIZES[0]), PIECE_SIZES[1]))
        self._lock = unit.threading.Lock()
        self._sleep: Callable[[float], object] = unit.time.sleep
        self._clock: Callable[[], float] = unit.time.monotonic
        self._free = self._clock()

    def take(self, count: int) -> None:
        """Wait until `count` bytes may be sent.

        Parks: until the time slots of earlier calls have passed.
        """
        with self._lock:
            now = self._clock()
            begin = max(self._free, now - CREDIT)
            self._free = begin + count / self.rate
            self.passed += count
        if begin > now:
            self._sleep(begin - now)


WINDOW: Final = 0.5  # seconds: long against a round trip, short against a backup
FACTOR: Final = 2  # by which the number of workers grows
GAIN: Final = 1.1  # if more workers gain less than this factor, something else is the limit
USED: Final = 0.95  # fraction from which on the bandwidth or the processors count as used
PATIENCE: Final = 8  # windows after which growth is tried again, because later files may differ
MOST_IN_FLIGHT: Final = 1024


@dataclass(frozen=True)
class Sample:
    """The figures up to now: seconds on a monotonic clock, answered requests, bytes on the wire, and CPU seconds."""

    time: float
    requests: int
    passed: int
    cpu: float


class ConcurrencyControl:
    """Decides how many workers there should be (`--dhagas auto`).

    The number grows as long as growth increases the speed, but not while the bandwidth or the processors are fully
    used. It never shrinks, because an idle worker costs only some kilobytes.
    """

    def __init__(self, start: int, processors: int, rate: float = 0.0, most: int = MOST_IN_FLIGHT) -> None:
        """Begin with `start` workers; `rate` is the bandwidth limit, 0 without one."""
        self.wanted = start
        self._most = max(start, most)
        self._processors = processors
        self._rate = rate
        self._last: Sample | None = None
        self._speed = 0.0
        self._rest = 0

    def observe(self, sample: Sample) -> int:
        """Record a sample. Returns: the number of workers from now on."""
        last = self._last
        if last is None:
            self._last = sample
        elif sample.time - last.time >= WINDOW:
            self._last = sample
            self._judge(last, sample)
        return self.wanted

    def _judge(self, last: Sample, sample: Sample) -> None:
        seconds = sample.time - last.time
        speed = (sample.requests - last.requests) / seconds
        if self._is_used(last, sample, seconds):
            self._speed = speed
        elif self._rest:
            self._rest -= 1
        elif speed <= self._speed * GAIN:
            self._speed = 0.0  # at the next attempt, any gain is enough
            self._rest = PATIENCE
        else:
            self._speed = speed
            self.wanted = min(self._most, self.wanted * FACTOR)

    def _is_used(self, last: Sample, sample: Sample, seconds: float) -> bool:
        bandwidth = bool(self._rate) and (sample.passed - last.passed) >= self._rate * seconds * USED
        return bandwidth or (sample.cpu - last.cpu) >= self._processors * seconds * USED


def sample_of(unit: Unit, requests: int, passed: int) -> Sample:
    """Take a sample now."""
    clock: Any = unit.time
    return Sample(clock.monotonic(), requests, passed, clock.process_time())
