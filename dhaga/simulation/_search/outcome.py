"""One run in a process of its own: its settings, and the outcome that the process sends back.

The process is forked from a parent that has made no run itself. For this reason each run begins with the same state of
the program's modules and of the process. Several runs can be made at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import TracebackType
from typing import Any

from ... import monkey
from ..._kernel.errors import Deadlock
from ..._kernel.run.call_outs import begins_program, is_of_dhaga
from .._base.errors import LimitReached
from .._schedule.exhaustive import ExhaustiveChooser
from .._schedule.strategies import FIFO, Exhaustive, Strategy, strategy_of
from .._schedule.switches import switches_from
from .._world.world import MAX_EVENTS, MAX_SECONDS, STALLS, FaultsLike, Simulation, is_failure
from ..network._faults import numbers_from
from .limit import limited

Program = Callable[[], object]
"""The program under simulation: a function without arguments, which the main code of the simulation calls."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run. ``Simulation`` explains them."""

    strategy: Strategy = field(default_factory=lambda: strategy_of("mixed"))
    preempt: str | None = "lines"
    modules: Sequence[str] = ()
    allow: Sequence[str] = ()
    max_events: int = MAX_EVENTS
    max_seconds: float = MAX_SECONDS
    stalls: float = STALLS
    tasks: bool = False
    faults: FaultsLike | None = None

    def check(self) -> None:
        """Check the settings. Raises: TypeError, ValueError."""
        fifo = replace(self, strategy=FIFO()) if isinstance(self.strategy, Exhaustive) else self
        fifo.simulation(0)

    def for_length(self, length: int) -> Settings:
        """Return these settings with the strategy set for a program of this length."""
        return replace(self, strategy=self.strategy.for_length(length))

    def simulation(self, seed: int, **more: Any) -> Simulation:
        """Return a simulation with these settings and this seed."""
        return Simulation(
            seed,
            strategy=self.strategy,
            preempt=self.preempt,
            modules=self.modules,
            allow=self.allow,
            max_events=self.max_events,
            max_seconds=self.max_seconds,
            stalls=self.stalls,
            tasks=self.tasks,
            faults=self.faults,
            **more,
        )


@dataclass
class Outcome:
    """The outcome of a run. ``kind``: the name of the error's class; "" if the run passed. ``report``: the traceback.

    If the process has not ended in time, ``kind`` is "Hang"; if the process died, "ProcessDied".
    ``faults``: the numbers of the faults that happened. ``length``: the number of the run's events and points. A point
    is a place of a possible preemption. ``strategy``: the name of the strategy that replays the run with ``seed``; only
    ``switches`` replay an exhaustive run.
    ``failed_at``: file and line of the failed statement, if it is among the executed ``lines``.
    ``nearest``, ``nearest_lines``: the kind and the lines of the same run without the switch that causes the failure.
    """

    seed: int
    hash: str = ""
    events: int = 0
    seconds: float = 0.0
    kind: str = ""
    report: str = ""
    switches: str = ""
    faults: str = ""
    length: int = 0
    strategy: str = ""
    decisions: list[tuple[int, int, bool]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    lines: list[tuple[int, str, int]] = field(default_factory=list)
    marks: list[tuple[int, str, int]] = field(default_factory=list)
    failed_at: tuple[str, int] | None = None
    log: list[tuple[float, int, str, int]] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list)
    nearest: str | None = None
    nearest_lines: list[tuple[int, str, int]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return bool(self.kind)


@dataclass(frozen=True)
class Order:
    """An order to make one run of a seed. The strategy chooses the schedule, unless ``switches`` gives it.

    ``prefix``: the first choices of the strategy ``Exhaustive``. ``faults``: the numbers of the faults that happen;
    None: all happen. ``keep_lines``: whether the outcome includes the executed lines. ``keep_log``: whether the outcome
    includes the events.
    """

    seed: int
    switches: str | None = None
    faults: str | None = None
    prefix: Sequence[int] | None = None
    keep_lines: bool = False
    keep_log: bool = False


@begins_program
def run_in(simulation: Simulation, program: Program) -> None:
    """Run a program as the main code of a simulation. Raises: the errors of the program and of the simulation."""
    with simulation:
        program()


def run_here(program: Program, settings: Settings, order: Order) -> Outcome:
    """Run a program once, in this process."""
    switches = None if order.switches is None else switches_from(order.switches)
    bound = settings.strategy.preemptions if isinstance(settings.strategy, Exhaustive) else None
    if bound is not None:
        settings = replace(settings, strategy=FIFO())
    keep = {"keep": None} if order.keep_log else {}
    simulation = settings.simulation(
        order.seed,
        switches=switches,
        only_faults=None if order.faults is None else numbers_from(order.faults),
        keep_lines=order.keep_lines,
        **keep,
    )
    if bound is not None and switches is None:
        simulation.run.chooser = ExhaustiveChooser(order.prefix or (), bound)
    outcome = Outcome(order.seed, prefix=list(order.prefix or ()))
    trace = None
    try:
        run_in(simulation, program)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if is_failure(error):
            trace = error.__traceback__
            outcome.kind = type(error).__name__
            outcome.report = "".join(traceback.format_exception(without_own_frames(error)))
    fill(outcome, simulation, order)
    outcome.failed_at = failed_statement(trace, outcome)
    return outcome


def failed_statement(trace: TracebackType | None, outcome: Outcome) -> tuple[str, int] | None:
    """Return file and line of the innermost place in a traceback whose line is an executed line of the program."""
    executed = {(file, line) for _, file, line in outcome.lines}
    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(trace)]
    return next((place for place in reversed(places) if place in executed), None)


def without_own_frames(error: BaseException) -> BaseException:
    """Remove Dhaga's frames above the program's first frame from an error's traceback. Returns: the error."""
    trace = error.__traceback__
    while trace is not None and is_of_dhaga(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None and not isinstance(error, (Deadlock, LimitReached)):
        trace = error.__traceback__
    return error.with_traceback(trace)


def fill(outcome: Outcome, simulation: Simulation, order: Order) -> None:
    run = simulation.run
    outcome.hash, outcome.events, outcome.seconds = simulation.hash, run.log.count, run.clock.now - run.began_at
    outcome.switches = ",".join(map(str, run.switches))
    outcome.faults = ",".join(each.number for each in run.faults)
    outcome.length = run.log.count + sum(member.points for member in run.members.all)
    outcome.strategy = str(simulation.strategy)
    outcome.names = [member.name for member in run.members.all]
    if isinstance(run.chooser, ExhaustiveChooser):
        outcome.decisions = run.chooser.decisions
    if order.keep_lines and simulation.points is not None:
        outcome.lines = [(member.number, file, line) for member, file, line in simulation.points.lines]
        outcome.marks = simulation.run.marks
    if order.keep_log:
        outcome.log = [(each.time, each.member, each.what, each.following) for each in run.log.kept]


# ---- in a process of its own


@dataclass
class Child:
    """A forked process that makes one run. ``fd``: the pipe from which its outcome is read."""

    pid: int
    fd: int
    order: Order
    began_at: float
    received: bytearray = field(default_factory=bytearray)

    def outcome(self, status: int) -> Outcome:
        """Return the outcome that the process has sent, or a failure if the process has died before that."""
        if self.received:
            return Outcome(**json.loads(self.received))
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return Outcome(
            self.order.seed, kind="ProcessDied", report=f"the process of seed {self.order.seed} ended by {how}"
        )


def start_child(
    program: Program, settings: Settings, order: Order, began_at: float, real_seconds: float | None = None
) -> Child:
    """Fork a process that makes one run. The process ends itself if the run takes longer than ``real_seconds``."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = monkey.original("os", "fork")()
    if pid:
        monkey.original("os", "close")(writer)
        return Child(pid, reader, order, began_at)
    status = 1
    try:
        send_outcome(program, settings, order, writer, real_seconds)
        status = 0
    except KeyboardInterrupt:
        status = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def send_outcome(program: Program, settings: Settings, order: Order, writer: int, real_seconds: float | None) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)

    def send(outcome: Outcome) -> None:
        data = json.dumps(asdict(outcome)).encode()
        write = monkey.original("os", "write")
        while data:
            data = data[write(writer, data) :]

    # A program that is allowed to use signals can need SIGALRM, so the limit must not use it.
    limit = None if "signals" in settings.allow else real_seconds
    with limited(order.seed, limit, lambda text: send(Outcome(order.seed, kind="Hang", report=text))):
        outcome = run_here(program, settings, order)
    send(outcome)
