"""RateLimiter: a token bucket. Tokens are added at a steady rate; callers take tokens, or wait for them in turn.

The bucket's only state is the time at which the bucket will be full (``_full_at``). An interval is the time in which
one token is added. A caller that takes ``n`` tokens moves ``_full_at`` by ``n`` intervals, and continues when
``_full_at`` is at most ``burst`` intervals away. So no timer fills the bucket, rounding errors do not add up, and a
late wake does not lower the rate. ATM networks use the same algorithm (generic cell rate algorithm, virtual
scheduling). A fair lock orders the callers: the first one sleeps until its tokens have been added, and the others wait
for the lock. A caller that is cancelled or times out takes no tokens.
"""

from __future__ import annotations

from .._kernel import originals
from .._kernel.faces.arguments import check_seconds
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.run.scheduler import sleep
from .._kernel.wait.current import clock_here
from .completion import time_left
from .lock import Lock


@refuse_async_with()
class RateLimiter:
    """A fair limit of ``rate`` evenly spaced calls in ``per`` seconds; after a pause, ``burst`` calls begin at once.

    Make each call inside ``with limiter:``, or after ``acquire()``. ``burst`` (default 1) is the largest number of
    tokens in the bucket. With a burst of 1, at most ``rate`` + 1 calls begin in any ``per`` seconds. A program may
    assign another ``rate`` at any time. From: a dhaga, main code, any OS thread. Raises: TypeError, ValueError.

    >>> import dhaga, time
    >>> limiter, began = dhaga.RateLimiter(100), time.monotonic()
    >>> for _ in range(3):
    ...     with limiter: pass
    >>> time.monotonic() - began >= 0.02
    True
    """

    def __init__(self, rate: float, per: float = 1.0, burst: int = 1) -> None:
        self.per: float = checked_positive("per", per)
        self._interval = self.per / checked_positive("rate", rate)
        self.burst: int = burst if isinstance(burst, int) else int(checked_positive("burst", burst))
        if self.burst < 1:
            raise ValueError(f"burst must be 1 or more, not {burst!r}")
        self._full_at = 0.0
        self._turn = Lock()
        self._turn._waiters.reason = "rate.acquire"

    def __repr__(self) -> str:
        parked = self._turn._waiters.parked() + self._turn.locked()
        return (
            f"<RateLimiter {self.rate:g} in {self.per:g} s, {self.tokens:.1f} of {self.burst} saved, {parked} parked>"
        )

    @property
    def rate(self) -> float:
        """The number of tokens added in ``per`` seconds. A program may change this number; the change affects later
        calls.
        """
        return self.per / self._interval

    @rate.setter
    def rate(self, rate: float) -> None:
        interval = self.per / checked_positive("rate", rate)
        now = clock_here()()
        # Tokens missing from the bucket are added at the new rate.
        self._full_at = now + max(0.0, self._full_at - now) * interval / self._interval
        self._interval = interval

    @property
    def tokens(self) -> float:
        """The number of tokens that are in the bucket now."""
        return self.burst - max(0.0, self._full_at - clock_here()()) / self._interval

    def acquire(self, tokens: int = 1, *, timeout: float | None = None) -> bool:
        """Acquire ``tokens`` tokens; wait in turn until there are enough.

        Parks: until there are enough tokens (``rate.acquire``, ``sleep``). Returns: False as soon as the wait is
        certain to take more than ``timeout`` seconds (0: do not wait). Raises: ValueError for more tokens than
        ``burst``.
        """
        if not 0 < tokens <= self.burst:
            raise ValueError(f"from 1 to {self.burst} tokens, the burst, can be taken at once, not {tokens!r}")
        check_seconds(timeout)
        left = time_left(timeout)
        if timeout is None or timeout > originals.TIMEOUT_MAX:
            self._turn.acquire()
        elif not self._turn.acquire(timeout=max(0.0, timeout)):
            return False
        try:
            clock = clock_here()
            now = clock()
            full_at = max(self._full_at, now) + tokens * self._interval
            seconds = full_at - self.burst * self._interval - now
            limit = left()
            if limit is not None and seconds > limit:
                return False
            interval = self._interval
            if seconds > 0:
                sleep(seconds)
            if self._interval != interval:  # a program has assigned another rate meanwhile
                full_at = max(self._full_at, clock()) + tokens * self._interval
            self._full_at = full_at
            return True
        finally:
            self._turn.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Do nothing: the rate limits the beginning of calls, not their duration."""

    def _at_fork_reinit(self) -> None:
        # The callers that held the lock or waited for it exist only in the parent process.
        self._turn._at_fork_reinit()
        self._turn._waiters.reason = "rate.acquire"


def checked_positive(name: str, number: float) -> float:
    """Return ``number`` if it is finite and above 0. Raises: TypeError, ValueError."""
    if not isinstance(number, (int, float)):
        raise TypeError(f"{name} is a number, not {number!r}")
    if not 0 < number < float("inf"):
        raise ValueError(f"{name} must be above 0 and finite, not {number!r}")
    return number
