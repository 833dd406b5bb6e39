"""CapacityLimiter: an adjustable number of tokens. Each caller may borrow one token.

``_lent`` is the number of borrowed tokens. This number includes tokens that were handed over to waiters that have not
run yet. As in ``semaphore.py``, a returned token goes to the first waiter, and a caller that finds no free token queues
up and then checks again. ``_borrowers`` contains the greenlet of each borrower.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from greenlet import getcurrent

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.interpreter.guards import Guarded
from .._kernel.wait.wait_graph import name_of
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT


class CapacityLimiterStatistics(NamedTuple):
    """The result of ``CapacityLimiter.statistics()``; ``borrowers`` contains the borrowers' names."""

    total_tokens: float
    borrowed_tokens: int
    borrowers: tuple[str, ...]
    parked: int


@refuse_async_with("async with asyncio.Semaphore")
class CapacityLimiter(Guarded):
    """A limit on the number of callers that run a block at the same time. Each caller borrows one token, in FIFO order.

    Unlike with a Semaphore, only the borrower can return a token, and ``statistics()`` names the borrowers.
    ``total_tokens`` is an int or ``math.inf``, and can be changed later. From: a dhaga, main code, any OS thread.
    Source: trio's and anyio's CapacityLimiter. Raises: TypeError, ValueError.

    >>> import dhaga
    >>> limiter = dhaga.CapacityLimiter(2)
    >>> with limiter: print(limiter, limiter.available_tokens)
    <CapacityLimiter 1 of 2 borrowed, 0 parked> 1
    """

    def __init__(self, total_tokens: float) -> None:
        self._total = checked_tokens(total_tokens)
        self._lent = 0
        self._borrowers: dict[Any, None] = {}
        self._waiters = WaitQueue(self, "capacity.acquire")

    def __repr__(self) -> str:
        return f"<CapacityLimiter {self.borrowed_tokens} of {self._total} borrowed, {self._waiters.parked()} parked>"

    @property
    def total_tokens(self) -> float:
        """The number of tokens, which a program may change. While this many tokens are borrowed, no more are lent."""
        return self._total

    @total_tokens.setter
    def total_tokens(self, total_tokens: float) -> None:
        self._total = checked_tokens(total_tokens)
        self._hand_out_tokens()

    @property
    def borrowed_tokens(self) -> int:
        """The number of tokens that are borrowed now."""
        return self._lent

    @property
    def available_tokens(self) -> float:
        """The number of tokens that can be borrowed now."""
        return max(0, self._total - self._lent)

    def statistics(self) -> CapacityLimiterStatistics:
        """Return a snapshot: the number of tokens, the borrowers, the number of waiting callers."""
        borrowers = tuple(map(name_of, list(self._borrowers)))
        return CapacityLimiterStatistics(self._total, len(borrowers), borrowers, self._waiters.parked())

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Borrow a token. Parks: while no token is free (``capacity.acquire``). Returns: whether a token was borrowed.

        Raises: RuntimeError if the caller has borrowed a token already, ValueError.
        """
        me = getcurrent()
        if me in self._borrowers:
            raise RuntimeError(f"{name_of(me)} has borrowed a token of {self!r} already: one to each")
        if timeout is not None:
            if not blocking:
                raise ValueError("can't specify timeout for non-blocking acquire")
            check_wait_timeout(timeout)
        if self._lent < self._total: self._lent += 1; self._borrowers[me] = None; return True  # atomic  # fmt: skip
        if not blocking or (timeout is not None and timeout <= 0):
            return False
        return self._wait(me, timeout)

    def _wait(self, me: Any, timeout: float | None) -> bool:
        """Park until a token is handed over. Returns: False after ``timeout`` seconds."""
        if self._waiters.wait(True, self._hand_out_tokens, timeout) is TIMED_OUT:
            return False
        self._borrowers[me] = None
        return True

    def release(self) -> None:
        """Give the caller's token back; the first waiter gets the token. Raises: RuntimeError if the caller has no
        token.
        """
        me = getcurrent()
        try:
            del self._borrowers[me]
        except KeyError:
            raise RuntimeError(f"{name_of(me)} has no token of {self!r} to give back") from None
        self._lent -= 1  # atomic
        self._hand_out_tokens()

    def _hand_out_tokens(self) -> None:
        """Hand free tokens to the first waiters."""
        while self._waiters:
            if self._lent < self._total: self._lent += 1  # atomic  # fmt: skip
            else:
                return
            # Take the token before the wake, so that no other caller gets the token. Put it back if all waiters have
            # left.
            if self._waiters.wake_first() is None:
                self._lent -= 1  # atomic

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.release()

    def _take_back_from_(self, waiter: object) -> None:
        """In a forked child, put back the token of a waiter that never runs in the child."""
        self._lent -= 1  # atomic

    def _at_fork_reinit(self) -> None:
        # The borrowers and the waiters exist only in the parent process.
        self._borrowers.clear()
        self._lent = 0
        self._waiters.clear()


def checked_tokens(total_tokens: float) -> float:
    """Return ``total_tokens`` if it is valid. Raises: TypeError, ValueError."""
    if not isinstance(total_tokens, int) and total_tokens != math.inf:
        raise TypeError(f"total_tokens is an int or math.inf, not {total_tokens!r}")
    if total_tokens < 0:
        raise ValueError(f"total_tokens must be 0 or more, not {total_tokens}")
    return total_tokens
