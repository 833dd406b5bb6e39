"""``Simulation``: one run of a seed, as a block of main code.

In the block, the standard library is patched, and the main code has its own scheduler. The seed decides everything that
the outside world decides in a real run: who runs next (``_schedule/run.py``), where threads are preempted
(``_schedule/points.py``), the time (``_standard/clocks.py``), random numbers (``_standard/randomness.py``), the network
and the disks. A call that leaves the simulation is an error (``_standard/unsimulated.py``).
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any, Self

from greenlet import getcurrent

from ..._kernel import outside
from ..._kernel.api import sleep
from ..._kernel.errors import Deadlock
from ..._kernel.faces.foreign_names import refuse_async_with
from ..._kernel.process.virtual_clock import (
    JumpingSelector,
    cancel_dhagas,
    close_after_cancels,
    new_virtual_scheduler,
    set_main_aside,
)
from ..._kernel.run.microthread import Dhaga
from ..._kernel.wait import deadlock
from ..._kernel.wait.current import on_event_loop
from ...select import immediate
from .._base import here
from .._base.errors import Stopped
from .._base.ranges import is_number
from .._base.undoing import Undoing
from .._schedule.events import KEPT, Log
from .._schedule.points import KINDS, NewPoints, Program
from .._schedule.run import Failure, Run
from .._schedule.simulated_queue import SimulatedQueue
from .._schedule.strategies import Strategy, strategy_of
from .._schedule.switches import ReplayingChooser, Switch
from .._standard.clocks import SimulatedClock
from .._standard.coroutines import ProgramLoops
from .._standard.offload import threads_of
from .._standard.randomness import Draws, install_draws
from .._standard.standard import replaced
from .._standard.unsimulated import Unsimulated
from ..disk import Disks
from ..disk._installed import install_disks
from ..network import Faults, Network
from ..network._faults import numbers_from
from ..network._installed import install_network
from ..network._pauses import HoldingLowQueue
from .report import report_of

MAX_EVENTS = 1_000_000
MAX_SECONDS = 30 * 86_400.0

CHECKS = 100
"""The number of times that ``eventually`` checks its condition after the first check."""

STALLS = 1.0
"""The default of ``stalls``: the virtual seconds, in total, for which threads may stand still between lines."""

STARTED_BY = "Exception ignored in thread started by"
"""The beginning of the messages with which ``_thread`` reports errors of threads to ``sys.unraisablehook``."""


class SimulatedSelector(JumpingSelector):
    """A selector that detects a deadlock at once, because nothing outside the simulation can wake a dhaga.

    ``has_outside``: whether the program may make real calls. These can wake a dhaga, so the selector waits for them.
    """

    run: Run
    hosts_awaited: Callable[[], list[str]] = list
    is_shared = True
    has_outside = False

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None or self.idle_callbacks or self.has_outside:
            events = super().select(timeout)
        else:
            events = super().select(0)
            if not events and self.scheduler is not None and not self.scheduler.count_runnable():
                self.raise_deadlock()
        return events

    def awaits_outside(self) -> bool:
        # Without real calls, only the program itself can end a signal.pause(), for example.
        return self.has_outside and super().awaits_outside()

    def jump(self, seconds: float) -> None:
        super().jump(seconds)
        if self.clock.now > self.run.ends_at:
            self.run.fail_limit(f"{self.run.max_seconds:g} s of virtual time")

    def raise_deadlock(self) -> None:
        scheduler = self.scheduler
        assert scheduler is not None
        main = scheduler.main_waiter
        assert main is not None
        self.run.fail(Deadlock(self.still_serving() + deadlock.describe(main, [scheduler])))
        if not scheduler.count_runnable():
            # The cancel by fail() stays pending while main code is in a park that cannot be cancelled, for example
            # while Condition.wait() gets its lock back.
            main.wake_parked(error=Stopped("the simulation has failed"))

    def still_serving(self) -> str:
        """Return a text about how to end the hosts whose threads keep the block open; empty without such hosts."""
        hosts = self.hosts_awaited()
        if not hosts:
            return ""
        return (
            f"main code has ended, but threads on {' and '.join(hosts)} go on waiting, as servers do: end a host with "
            "kill(), or start its server with spawn(serve, daemon=True); "
        )


FaultsLike = Faults | Mapping[str, Any] | str | os.PathLike[str]


def check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is a whole number from 1, and not {value!r}")


def check_seed(seed: object) -> None:
    """Check that a seed is a whole number from 0. Raises: TypeError, ValueError."""
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"a seed is a whole number, and not {seed!r}")
    if seed < 0:
        raise ValueError(f"a seed is a whole number from 0, and not {seed}")


def is_failure(error: BaseException) -> bool:
    """Return whether an error of the main code fails the run. ``sys.exit(0)`` and Ctrl-C do not fail the run."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    # Not all errors are subclasses of Exception: those of pytest, for example, are not.
    return not isinstance(error, (KeyboardInterrupt, Stopped))


@refuse_async_with()
class Simulation:
    """A run of a ``with`` block in main code, and of all threads that the block starts. A seed controls the run.

    ``strategy``: who runs next, a ``Strategy`` or a name (``mixed``, ``random``, ``pct:3``, ``fifo``). ``preempt``:
    threads are also switched between ``"lines"`` or ``"instructions"`` of the program; None: only where they wait.
    ``modules``: installed packages that count as parts of the program. ``allow``: the kinds of real calls that are
    allowed. ``max_events`` and ``max_seconds`` (of the virtual clock): limits beyond which the run fails.
    ``max_events`` also limits the lines or instructions between two events. ``stalls``: the virtual seconds, in total,
    for which threads may stand still between lines. ``tasks``: whether the strategy also orders the ready tasks of
    asyncio loops. ``switches``: a schedule to replay; the strategy is then unused. ``faults``: the faults of the
    ``network``, as data or as the path of a TOML file. ``only_faults``: the numbers of the faults that happen, as in a
    report; None: all happen.
    The block ends once all threads except daemons have ended. Then the coroutines that are still suspended are closed.
    An error of any thread ends the run. The block raises this error, with the report as a note.
    Raises: TypeError, ValueError, RuntimeError, PatchError, and the program's error.

    >>> import threading, time
    >>> from dhaga.simulation import Simulation
    >>> with Simulation(seed=1):
    ...     started = time.monotonic()
    ...     threading.Event().wait(3600)  # an hour, in no time
    ...     round(time.monotonic() - started)
    False
    3600
    """

    def __init__(
        self,
        seed: int,
        *,
        strategy: Strategy | str = "mixed",
        preempt: str | None = "lines",
        modules: Iterable[str] = (),
        allow: Iterable[str] = (),
        max_events: int = MAX_EVENTS,
        max_seconds: float = MAX_SECONDS,
        stalls: float = STALLS,
        tasks: bool = False,
        switches: Iterable[Switch] | None = None,
        keep: int | None = KEPT,
        keep_lines: bool = False,
        faults: FaultsLike | None = None,
        only_faults: Iterable[str] | None = None,
    ) -> None:
        check_seed(seed)
        check_count("max_events", max_events)
        if not is_number(max_seconds) or not max_seconds > 0:
            raise ValueError(f"max_seconds is a number of seconds above 0, and not {max_seconds!r}")
        if not is_number(stalls) or not stalls >= 0:
            raise ValueError(f"stalls is a number of seconds from 0, and not {stalls!r}")
        if preempt is not None and preempt not in KINDS:
            raise ValueError(f"preempt is {' or '.join(map(repr, KINDS))}, or None, and not {preempt!r}")
        if isinstance(modules, str):
            raise TypeError(f"modules takes several names, [{modules!r}], and not {modules!r}")
        self.seed = seed
        self.strategy: Strategy = strategy_of(strategy)
        self.preempt = preempt
        self.draws = Draws(seed)
        replayed = None if switches is None else ReplayingChooser(switches)
        chooser = replayed or self.strategy.chooser(self.draws.schedule)
        self.clock = SimulatedClock()
        self.run = Run(chooser, self.clock, Log(keep), max_events, max_seconds, stalls)
        self.unsimulated = Unsimulated(allow)
        self.network = Network(seed, self.clock)
        self.disks = self.network.disks = Disks(self.network)
        self.network.allows_real = "network" in self.unsimulated.allowed
        self.faults = None if faults is None else Faults.of(faults)
        self.only_faults = None if only_faults is None else numbers_from(",".join(only_faults))
        self.clock.ahead = self.network.hosts.seconds_ahead
        self.run.has_points = preempt is not None
        self.points: Any = NewPoints(self.run, preempt, Program(modules), keep_lines) if preempt else None
        self.loops = ProgramLoops(self.run if tasks else None)

    def __repr__(self) -> str:
        return f"<Simulation of seed {self.seed}, {self.strategy}, {self.run.log.count} events, hash {self.hash}>"

    @property
    def hash(self) -> str:
        """The hash of all events so far. Each run of the seed with the same settings has the same hash."""
        return self.run.log.hash

    def always(self, invariant: Callable[[], object]) -> None:
        """Call a function each time that a thread waits, ends or is preempted, before the next thread runs.

        The run fails if the function returns False or raises an error. The function must not park.
        """
        self.run.invariants.append(invariant)

    def eventually(self, condition: Callable[[], object], within: float) -> None:
        """Wait until a condition holds. The condition is checked at once, then 100 times in ``within`` seconds.

        Example of a condition: the nodes have elected a leader after faults, and all replicas agree.
        Parks: until the condition holds (``sleep``). From: a thread of the simulation, or main code. Raises:
        AssertionError after ``within`` seconds of the virtual clock; ValueError; the condition's error.
        """
        if not is_number(within) or not 0 < within < float("inf"):
            raise ValueError(f"within is a number of seconds above 0, and not {within!r}")
        for _ in range(CHECKS):
            if condition():
                return
            sleep(within / CHECKS)
        if not condition():
            name = getattr(condition, "__qualname__", repr(condition))
            raise AssertionError(f"{name} does not hold within {within:g} s")

    # ---- the block

    def __enter__(self) -> Self:
        if isinstance(getcurrent(), Dhaga) or on_event_loop():
            raise RuntimeError("a Simulation is for main code: it cannot take over a running loop")
        if here.running is not None:
            raise RuntimeError("a Simulation is under way: simulations cannot be nested")
        self.end = Undoing()
        try:
            self.install(self.end, sys._getframe(1))
        except BaseException:
            self.end.close()
            raise
        return self

    def install(self, stack: Undoing, caller: FrameType | None) -> None:
        """Install the parts of the simulation. The calls in ``stack`` remove them again."""
        standard = replaced()
        standard.__enter__()
        stack.callback(standard.__exit__, None, None, None)
        stack.callback(set_main_aside())
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        self.selector = selector = SimulatedSelector(self.clock)
        selector.run = self.run
        selector.has_outside = bool(self.unsimulated.allowed & {"network", "processes", "threads", "signals"})
        self.scheduler = new_virtual_scheduler(
            selector,
            lambda: SimulatedQueue(self.run),
            new_starts=False,
            new_low=lambda owner: HoldingLowQueue(owner, self.run),
        )
        self.run.begin(self.scheduler)
        self.network.begin(self.run, self.scheduler)
        self.run.next_moment = self.network.next_moment
        self.run.name_of_fd = self.network.name_of_fd
        install_network(self.network, stack)
        self.disks.begin(self.run, self.scheduler)
        install_disks(self.disks, stack)
        if self.faults is not None:
            self.faults.apply(self.network, self.only_faults)
        stack.set(threading, "excepthook", self.on_thread_error)
        stack.set(sys.modules[__package__.partition(".")[0]], "excepthook", self.on_thread_error)
        self.unraisablehook = sys.unraisablehook
        stack.set(sys, "unraisablehook", self.on_unraisable)
        stack.set(outside, "pool_thread", threads_of(self.run, self.draws.schedule))
        # After a number of polls, a poll yields. Polls before the run must not change the run, so their count is reset.
        stack.callback(immediate.begin_again, immediate.begin_again())
        self.loops.watch(stack)
        install_draws(self.draws, stack)
        self.unsimulated.install(stack)
        here.begin(self)
        stack.callback(here.end)
        stack.callback(self.abandon)
        stack.callback(setattr, self.run, "over", True)
        if self.points is not None:
            self.points.begin(caller)
            stack.callback(self.points.end)

    def abandon(self) -> None:
        """Cancel the remaining threads. Close the suspended coroutines and the scheduler."""
        main: Any = self.scheduler.main_waiter
        for error in [*main.pending_errors]:
            if isinstance(error, Stopped):
                main.pending_errors.drop(error)
        self.run.release_paused()
        try:
            cancel_dhagas(self.scheduler)
            self.loops.close_coroutines()
        finally:
            close_after_cancels(self.scheduler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # The interpreter also waits for the threads after sys.exit(0).
            ends = error is None or (isinstance(error, SystemExit) and not is_failure(error))
            own = (self.finish() if ends else None) or error
            failure = self.failure_of(own)
        finally:
            self.end.close()
        if failure is not None:
            failure.error.add_note(report_of(self, failure))
            own = failure.error
        if own is not None and own is not error:
            raise own from None

    def finish(self) -> BaseException | None:
        """Wait until all threads except daemons have ended. Returns: the error that ends this wait early, or None."""
        self.selector.hosts_awaited = self.network.hosts.with_threads
        try:
            while rest := [dhaga for dhaga in self.scheduler.in_order() if not dhaga.daemon]:
                rest[0].join()
            if self.run.failure is not None:
                raise Stopped("the simulation has failed")
        except BaseException as error:
            return error
        return None

    def failure_of(self, error: BaseException | None) -> Failure | None:
        """Return the failure of the run, an error in a thread or in the main code; None if the run passed."""
        if self.run.failure is None and error is not None and is_failure(error):
            self.run.fail(error)
        return self.run.failure

    # ---- hooks

    def on_thread_error(self, args: Any) -> None:
        """Fail the run because of a thread's error. Source: ``threading.excepthook``, which ignores SystemExit."""
        if args.exc_value is not None and args.exc_type is not SystemExit:
            self.run.fail(args.exc_value)

    def on_unraisable(self, args: Any) -> None:
        """Fail the run because of an error of ``_thread.start_new_thread``. Source: ``sys.unraisablehook``."""
        if args.exc_value is not None and (args.err_msg or "").startswith(STARTED_BY):
            self.run.fail(args.exc_value)
        else:
            self.unraisablehook(args)


def current() -> Simulation:
    """Return the simulation of the calling OS thread. Raises: RuntimeError outside a simulation."""
    simulation = here.here()
    if simulation is None:
        raise RuntimeError("no simulation is under way here")
    return simulation
