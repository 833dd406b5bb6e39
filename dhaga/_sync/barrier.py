"""Barrier: a fixed number of callers wait for each other.

Each round of waiting is a Generation. A Generation counts arrivals, then becomes open (all parties have arrived) or
broken (a party has left early), and does not change after that. The barrier starts a new generation when the current
one opens and when the barrier is reset. A waiter keeps the generation in which it arrived. So if a fast caller calls
``wait`` again, this arrival is counted in the next generation and does not disturb slow callers.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import BrokenBarrierError

from .._kernel.faces.arguments import check_seconds, check_wait_timeout
from .._kernel.wait.wait_queue import WaitQueue
from .condition import Condition
from .lock import Lock


class Generation:
    """One round of a barrier: its number of arrivals, and whether the round is open or broken."""

    __slots__ = ("arrived", "broken", "open")

    def __init__(self) -> None:
        self.arrived = 0
        self.open = self.broken = False


class Barrier:
    """A barrier for ``parties`` dhagas and threads. Source: ``threading.Barrier``.

    A wait that ends by a timeout, a cancel or an error breaks the barrier: all other waiters get BrokenBarrierError.

    >>> barrier = Barrier(1, action=lambda: print("all here"))
    >>> barrier.wait(), barrier.broken
    all here
    (0, False)
    """

    def __init__(self, parties: int, action: Callable[[], object] | None = None, timeout: float | None = None) -> None:
        if parties < 1:
            raise ValueError("parties must be > 0")
        self.parties = parties
        self._action = action
        check_seconds(timeout)
        self._timeout = timeout
        self._condition_ = Condition(Lock())
        self._condition_._waiters = WaitQueue(self, "barrier.wait")  # so that a dump of waits names the barrier
        self._generation_ = Generation()

    def __repr__(self) -> str:
        return f"<Barrier {'broken' if self.broken else f'{self.n_waiting} of {self.parties} parked'}>"

    @property
    def broken(self) -> bool:
        """Whether the barrier is broken. Only ``reset`` repairs a broken barrier."""
        return self._generation_.broken

    @property
    def n_waiting(self) -> int:
        """Current number of waiters."""
        return self._generation_.arrived

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have arrived. Returns: the caller's position in the order of arrival, from 0.

        Parks: until the last party has arrived (``barrier.wait``). Raises: BrokenBarrierError if the barrier is broken,
        or after ``timeout`` seconds (default: the barrier's timeout).
        """
        if timeout is not None:
            check_wait_timeout(timeout)
        with self._condition_:
            generation = self._generation_
            if generation.broken:
                raise BrokenBarrierError
            index = generation.arrived
            generation.arrived += 1
            try:
                if generation.arrived == self.parties:
                    self._open_(generation)
                else:
                    self._wait_for_others_(generation, self._timeout if timeout is None else timeout)
            # This party has left because of an error of the action, a timeout or a cancel, so the others must not wait
            # for it.
            except BaseException:
                self._break(generation)
                raise
            return index

    def _open_(self, generation: Generation) -> None:
        if self._action is not None:
            self._action()
        # Start a new generation first: a woken waiter may call wait() again before the others have left the old one.
        generation.open = True
        self._generation_ = Generation()
        self._condition_.notify_all()

    def _wait_for_others_(self, generation: Generation, timeout: float | None) -> None:
        if not self._condition_.wait_for(lambda: generation.open or generation.broken, timeout) or generation.broken:
            raise BrokenBarrierError

    def _break(self, generation: Generation) -> None:
        if not generation.open and not generation.broken:
            generation.broken = True
            generation.arrived = 0
            self._condition_.notify_all()

    def reset(self) -> None:
        """Reset the barrier to its initial state. Current waiters get BrokenBarrierError."""
        with self._condition_:
            # Later callers arrive in the new generation, so only the current waiters see the broken generation.
            former, self._generation_ = self._generation_, Generation()
            if former.arrived:
                self._break(former)

    def abort(self) -> None:
        """Break the barrier: current and later waiters get BrokenBarrierError until the next ``reset``."""
        with self._condition_:
            self._break(self._generation_)
