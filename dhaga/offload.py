"""The door to OS threads: run a blocking call in one, while its caller is parked.

``offload`` goes through a pool that all the program shares. An ``OffloadPool`` has threads of its own, so that its
calls wait for each other only: the commit path of a store must not stand in line behind look-ups of names.

Not here: what is offloaded (``resolve.py``, ``files.py``), a call on its way (``calls.py``), and pools of dhagas.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from .calls import Call, refuse_unfit
from .haste import be_punctual, haste
from .kernel import deadlock, exit, originals
from .kernel.osthread import OSThread
from .kernel.waiter import BOUND, Waiter, logger
from .kernel.waiting import WaitQueue, this_waiter

P = ParamSpec("P")
R = TypeVar("R")

MAX_THREADS = 16
"""Calls at once through the shared pool; more queue up. DNS and fsync gain nothing from more on a few cores."""

IDLE_SECONDS = 10.0
"""An idle thread of a pool ends after this."""


class Helper(originals.Thread):
    """One thread of a pool. Its gate opens when there may be something to do."""

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(name=pool.name, daemon=True)
        self.pool = pool
        self.call: Call | None = None
        self.gate = originals.allocate_lock()
        self.gate.acquire()

    def run(self) -> None:
        serving.pool = self.pool
        if self.make_next():  # the first caller does not wait for more than that
            be_punctual(self.native_id)
            while self.make_next():
                pass

    def make_next(self) -> bool:
        """Make the next call; False if the thread is to end. While idle it holds on to nothing that calls return."""
        call = self.pool.next_call(self)
        if call is None:
            return False
        self.call = call
        call.make(self)
        self.call = None
        return True


class Serving(originals.local):
    """Which pool the OS thread belongs to."""

    pool: OffloadPool | None = None


serving = Serving()


class OffloadPool:
    """OS threads for blocking calls, ``threads`` at most, and a queue for those that find none free.

    First come, first served; with one thread, calls are made one after the other, wherever they come from. Threads
    start as needed and end after ``IDLE_SECONDS`` without work. At interpreter exit the calls taken are waited for, for
    ``EXIT_SECONDS`` in all; what is not done by then is logged. A forked child starts with no threads and no calls.
    Raises: TypeError, ValueError for a name or a number that cannot be meant.
    """

    def __init__(self, name: str, threads: int) -> None:
        if not isinstance(name, str) or not isinstance(threads, int) or isinstance(threads, bool):
            raise TypeError(
                f'an OffloadPool needs a name and a number of threads, OffloadPool("wal", threads=1), not'
                f" {name!r} and {threads!r}"
            )
        if not name or threads < 1:
            raise ValueError(f"an OffloadPool needs a name, not {name!r}, and at least one thread, not {threads}")
        self.name = name
        self.limit = threads
        self.reason = f"offload {name}"
        self.closed = False
        self.start_anew()
        pools.add(self)

    def start_anew(self) -> None:
        """Have no calls and no threads: in the beginning, and in a forked child."""
        self.guard = originals.allocate_lock()
        self.calls: deque[Call] = deque()
        self.threads: set[Helper] = set()
        self.free: list[Helper] = []
        self.leavers = WaitQueue(self, f"shutdown {self.name}")

    def __repr__(self) -> str:
        state = ", shut down" if self.closed else ""
        return (
            f"<OffloadPool {self.name}, {len(self.threads)} of {self.limit} threads, {len(self.free)} free, "
            f"{len(self.calls)} calls due{state}>"
        )

    def offload(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call in a thread of this pool while the caller is parked; a plain OS thread blocks meanwhile.

        Parks: until the call returns (``offload NAME``). Context variables go along. A cancel lets the caller go at
        once: a call not begun is not made, any other runs to its end and its result is dropped. A call that comes from
        a thread of this pool is made there and then. Bound it by a ``Timeout``. For a HIGH dhaga the thread gets the
        interpreter lock sooner, too (``Haste``).
        Returns and raises what ``fn`` does. Raises: TypeError, ParkError, RuntimeError after ``shutdown``.
        """
        refuse_unfit(fn)
        me = this_waiter()
        if self.spares(me):
            return fn(*args, **kwargs)
        call = Call(self, fn, args, kwargs, me)
        me.prepare(self.reason, call)
        return self.answer_to(call, me)  # type: ignore[no-any-return]

    def finish(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a blocking call as ``offload`` does, for a caller who must know what came of it.

        Parks: until the call returns, whatever happens; a cancel stays pending until then. Else as ``offload``.
        """
        refuse_unfit(fn)
        me = this_waiter()
        if self.spares(me):
            return fn(*args, **kwargs)
        me.place = BOUND
        me.parked.append(self.reason)
        return self.answer_to(Call(self, fn, args, kwargs, me), me)  # type: ignore[no-any-return]

    def offloaded(self, fn: Callable[P, R], /) -> Callable[P, R]:
        """Have a function, or method, go through this pool wherever it is called: ``@wal.offloaded``."""
        return through(self.offload, fn)

    def spares(self, me: Waiter) -> bool:
        """Tell whether the caller makes its calls itself: a thread of this pool, of the shared one any plain thread."""
        return serving.pool is self or (self is shared and isinstance(me, OSThread))

    def answer_to(self, call: Call, me: Waiter) -> Any:
        """Have the call made for its caller, who counts as parked."""
        kind = haste.begin(me)
        try:
            self.submit(call)
        except BaseException as error:
            call.error = error
            call.answer()
        try:
            with woken_from_outside(me):
                me.park()
        finally:
            haste.end(kind)
            call.detach()  # a second Ctrl-C ends any park
        return call.outcome()

    # ---- calls and threads

    def submit(self, call: Call) -> None:
        """Queue a call up. Raises: RuntimeError if there is no thread and none can be started, or after shutdown."""
        with self.guard:
            if self.closed:
                raise RuntimeError(f"{self!r} takes no more calls")
            self.calls.append(call)
            if self.free:
                self.rouse()
                return
            if len(self.threads) == self.limit:
                return
            helper = Helper(self)
            self.threads.add(helper)
        try:
            helper.start()
        except BaseException:
            self.threads.discard(helper)
            if not self.threads and self.withdraw(call):
                raise

    def rouse(self) -> None:
        """Have a free thread look for work. From: who holds the guard."""
        helper = self.free.pop()
        deadlock.idle.discard(helper.ident or 0)
        helper.gate.release()

    def withdraw(self, call: Call) -> bool:
        """Take back a call that no thread has begun; False if it is too late."""
        with self.guard:
            try:
                self.calls.remove(call)
            except ValueError:
                return False
            return True

    def next_call(self, helper: Helper) -> Call | None:
        """Wait for the next call to make; None: the thread is to end."""
        while helper in self.threads:  # not in a child that the last call has forked
            with self.guard:
                if self.calls:
                    return self.calls.popleft()
                if self.closed:
                    break
                self.free.append(helper)
                deadlock.rest(originals.get_ident())
            if not helper.gate.acquire(timeout=IDLE_SECONDS) and not self.needs(helper):
                break
        self.leave(helper)
        return None

    def needs(self, helper: Helper) -> bool:
        """Tell whether an idle thread is to stay: it was given work just now."""
        with self.guard:
            if helper not in self.free:
                return True
            self.free.remove(helper)
            deadlock.idle.discard(originals.get_ident())
            return False

    def leave(self, helper: Helper) -> None:
        self.threads.discard(helper)
        self.release_leavers()

    def release_leavers(self) -> None:
        if not self.threads:
            self.leavers.wake_all()

    # ---- the end

    def shutdown(self, wait: bool = True, timeout: float | None = None) -> None:
        """Take no more calls. Those taken are made, then the threads end; ``with OffloadPool(...)`` ends so.

        Parks: until that is done (``shutdown NAME``), unless told not to ``wait``; a plain OS thread blocks. From:
        anywhere, any number of times. Raises: TimeoutError naming the calls under way after ``timeout`` seconds;
        RuntimeError where it would wait for itself.
        """
        if wait and serving.pool is self:
            raise RuntimeError(f"{self!r} is told by one of its calls to wait for it: shutdown(wait=False)")
        me = this_waiter() if wait else None
        with self.guard:
            self.closed = True
            helpers = list(self.threads)
            while self.free:
                self.rouse()
        if me is not None:
            self.wait_for_end(me, timeout)
            for helper in helpers:
                helper.join()

    def wait_for_end(self, me: Waiter, timeout: float | None) -> None:
        try:
            with woken_from_outside(me):
                if self.threads:
                    self.leavers.wait(True, self.release_leavers, timeout)
        except TimeoutError:
            calls = [*(helper.call for helper in list(self.threads) if helper.call is not None), *self.calls]
            raise TimeoutError(f"{self!r} was told to end, but these calls did not: {calls}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


@contextlib.contextmanager
def woken_from_outside(me: Waiter) -> Iterator[None]:
    """Have the scheduler of ``me`` know that an OS thread is going to wake it: it is not stuck, and no clock jumps."""
    scheduler = None if isinstance(me, OSThread) else me.scheduler
    if scheduler is not None:
        scheduler.outside_calls += 1
    try:
        yield
    finally:
        if scheduler is not None:
            scheduler.outside_calls -= 1


pools: weakref.WeakSet[OffloadPool] = weakref.WeakSet()
shared = OffloadPool("dhaga-offload", MAX_THREADS)
shared.reason = "offload"


def offload(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a blocking call in an OS thread while the calling dhaga is parked; a plain thread runs it itself.

    Parks: ``offload``, until the call returns; else as ``OffloadPool.offload``. The program shares ``MAX_THREADS``; at
    interpreter exit a call that nobody waits for is dropped. What takes less than some 100 µs is better called inline
    (a key-value store is reported to commit 46 % cheaper so): a hop takes 160 µs alone, 80 of CPU. 100 callers at once
    are done sooner from 70 µs on, of 1 ms 13 times, and who stands by waits 0.1 ms, not 111 (benchmarks/offload.py).
    Returns and raises what ``fn`` does. Raises: TypeError, ParkError, RuntimeError if no OS thread can be started.
    """
    return shared.offload(fn, *args, **kwargs)


def offloaded(fn: Callable[P, R], /) -> Callable[P, R]:
    """Have a function, or method, go through ``offload`` wherever it is called: ``@offloaded``."""
    return through(offload, fn)


def through(door: Callable[..., Any], fn: Callable[P, R]) -> Callable[P, R]:
    refuse_unfit(fn)

    @functools.wraps(fn)
    def offloading(*args: P.args, **kwargs: P.kwargs) -> R:
        return door(fn, *args, **kwargs)  # type: ignore[no-any-return]

    return offloading


def wait_for_calls() -> None:
    """Wait, at interpreter exit, for what the named pools have been given: a commit that has begun is not cut off."""
    deadline = originals.monotonic() + exit.EXIT_SECONDS
    for pool in [pool for pool in list(pools) if pool is not shared]:
        try:
            pool.shutdown(timeout=max(0.0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def start_pools_anew() -> None:
    haste.start_anew()
    for pool in list(pools):
        pool.start_anew()


originals.after_fork_in_child(start_pools_anew)
exit.farewells.append(wait_for_calls)
