"""``python -m dhaga simulate program.py``: runs a threaded program with many seeds, and shows how the program fails.

The process restarts itself with a fixed hash seed and without address randomization, so that sets have the same order
in each run.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from .._kernel.errors import PatchError
from .._kernel.run.call_outs import calls_out
from ..simulation._base.errors import NotDeterministic
from ..simulation._schedule.points import KINDS as POINTS
from ..simulation._schedule.strategies import Exhaustive, Strategy, strategy_of
from ..simulation._schedule.switches import switches_from
from ..simulation._search.determinism import check_determinism
from ..simulation._search.limit import limited
from ..simulation._search.outcome import Order, Outcome, Settings, run_here
from ..simulation._search.search import REAL_SECONDS, Findings, progress_line, search
from ..simulation._search.shrink import shrink
from ..simulation._standard.unsimulated import KINDS as OUTSIDE
from ..simulation._world.report import failure_text
from ..simulation._world.world import MAX_EVENTS, MAX_SECONDS, STALLS
from ..simulation.network import Faults
from ..simulation.network._faults import numbers_from
from . import run
from .arguments import CommandLine, count, seconds

SEEDS = 100

REPEATED = ("preempt", "module", "allow", "faults", "stalls", "max_events", "max_seconds", "timeout")
"""Options that the command for a replay repeats with the same values."""

NO_RANDOM_ADDRESSES = 0x0040000
"""ADDR_NO_RANDOMIZE of Linux's personality(2)."""


def main(arguments: list[str]) -> int:
    """Search, replay or check a program. Returns: the exit status, 1 if the program fails."""
    own, rest = split(command_line(), arguments)
    options = command_line().parse_args(own)
    if not rest:
        command_line().error("a program is expected after the options")
    try:
        command = Command(options, rest)
        if sys.flags.hash_randomization:
            start_again()
        return command.run()
    except (run.NoProgram, PatchError, ValueError) as error:
        print(f"python -m dhaga simulate: {error}", file=sys.stderr)
        return getattr(error, "status", 2)


def split(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into the options of the command, and the program with its arguments."""
    flags = {name for action in parser._actions if action.nargs == 0 for name in action.option_strings}
    place = 0
    while place < len(arguments) and arguments[place].startswith("-") and arguments[place] not in ("-", "-m"):
        word = arguments[place]
        # A flag may be abbreviated.
        place += 1 if "=" in word or any(flag.startswith(word) for flag in flags) else 2
    return arguments[:place], arguments[place:]


def start_again() -> None:
    """Restart this process with a fixed hash seed and fixed addresses. Returns: never."""
    with contextlib.suppress(AttributeError, OSError):  # some platforms and containers do not support the call
        ctypes.CDLL(None).personality(NO_RANDOM_ADDRESSES)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONHASHSEED": "0"})


class Command:
    """One invocation of the command: its options, and the program with its arguments."""

    def __init__(self, options: argparse.Namespace, rest: list[str]) -> None:
        self.options = options
        self.rest = rest
        self.program = partial(run_program, *program_of(rest))
        self.settings = Settings(
            strategy=options.strategy,
            preempt=None if options.preempt == "none" else options.preempt,
            modules=options.module,
            allow=options.allow,
            max_events=options.max_events,
            max_seconds=options.max_seconds,
            stalls=options.stalls,
            tasks=options.tasks,
            faults=options.faults,
        )
        self.settings.check()
        # This default does not apply to the run of a single seed, because users debug single seeds.
        self.real_seconds = options.timeout or REAL_SECONDS

    def run(self) -> int:
        if self.options.check:
            return self.check()
        return self.search() if self.options.seed is None else self.replay()

    @property
    def seeds(self) -> range:
        """The seeds to run."""
        seed, first = self.options.seed, self.options.first
        return range(first, first + self.options.seeds) if seed is None else range(seed, seed + 1)

    def replay(self) -> int:
        """Run one seed in this process and show its output."""
        switches, faults = self.options.switches, self.options.only_faults
        order = Order(self.options.seed, switches, faults, keep_lines=switches is not None)
        with limited(order.seed, self.options.timeout, lambda text: print(text, file=sys.stderr, flush=True)):
            outcome = run_here(self.program, self.settings, order)
        if outcome.failed:
            print(failure_text(outcome), file=sys.stderr)
            return 1
        tell(f"seed {outcome.seed} passes: {outcome.events:,} events, {outcome.seconds:g} s, hash {outcome.hash}")
        return 0

    def search(self) -> int:
        findings = search(
            self.program,
            self.seeds,
            self.settings,
            jobs=self.options.jobs,
            keep_going=self.options.keep_going,
            real_seconds=self.real_seconds,
            progress=progress_line,
        )
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")
        tell(str(findings))
        if findings.failures:
            self.show(findings)
            return 1
        return 130 if findings.interrupted else 0

    def show(self, findings: Findings) -> None:
        """Shrink and show the first failure, and show how to replay it. Show only the seeds of the other failures."""
        first = findings.failures[0]
        small = shrink(self.program, self.settings, first, self.real_seconds)
        print(failure_text(small), file=sys.stderr)
        plain = isinstance(self.settings.strategy, Exhaustive) or not first.switches
        tell(f"replay it:     {self.again(first, first.switches if plain else None)}")
        if (small.switches, small.faults) != (first.switches, first.faults):
            faults = small.faults if small.faults != first.faults else None
            tell(f"the short run: {self.again(first, small.switches, faults)}")
        if others := [str(outcome.seed) for outcome in findings.failures[1:]]:
            tell(f"seeds that also fail: {', '.join(others)}")

    def again(self, outcome: Outcome, switches: str | None = None, faults: str | None = None) -> str:
        """Return the command that replays a run."""
        words = [word for name in REPEATED for word in self.given(name)]
        words += ["--tasks"] if self.options.tasks else []
        words += ["--seed", str(outcome.seed)]
        words += ["--strategy", outcome.strategy] if switches is None else ["--switches", switches]
        words += [] if faults is None else ["--only-faults", faults]
        return shlex.join(["python", "-m", "dhaga", "simulate", *words, *self.rest])

    def given(self, name: str) -> list[str]:
        value = getattr(self.options, name)
        if value == command_line().get_default(name):
            return []
        values = value if isinstance(value, list) else [value]
        return [word for each in values for word in (f"--{name.replace('_', '-')}", str(each))]

    def check(self) -> int:
        """Check that two runs of each seed are the same."""
        for seed in self.seeds:
            try:
                hash = check_determinism(self.program, seed, self.settings)
            except NotDeterministic as error:
                print(f"python -m dhaga simulate: {error}", file=sys.stderr)
                return 1
            tell(f"seed {seed}: {hash} twice")
        return 0


def tell(line: str) -> None:
    print(line, file=sys.stderr)


def program_of(words: list[str]) -> tuple[Callable[[], Any], list[str]]:
    """Return a function that finds the program, and the program's arguments. Raises: NoProgram."""
    first, *rest = words
    if first != "-m":
        if not os.path.exists(first):
            raise run.NoProgram(f"can't open file {os.path.abspath(first)!r}")
        return partial(run.program_from_file, first), rest
    if not rest:
        raise run.NoProgram("argument expected for the -m option")
    # Only the package is looked up, because the lookup of a module in the package would run the package's code.
    if run.find_module_spec(rest[0].partition(".")[0]) is None:
        raise run.NoProgram(f"No module named {rest[0]}", 1)
    return partial(run.program_from_module, rest[0]), rest[1:]


@calls_out
def run_program(find: Callable[[], Any], arguments: list[str]) -> None:
    """Run the program, then shut down its executors like the interpreter does at exit."""
    try:
        run.run(find, arguments, run.Options())
    finally:
        executors: Any = sys.modules.get("concurrent.futures.thread")
        if executors is not None:
            executors._python_exit()


def strategy(text: str) -> Strategy:
    try:
        return strategy_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def switches(text: str) -> str:
    try:
        switches_from(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def only_faults(text: str) -> str:
    try:
        numbers_from(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def faults(path: str) -> Faults:
    try:
        return Faults.of(path)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def command_line() -> argparse.ArgumentParser:
    parser = CommandLine(
        "simulate",
        "PROGRAM …",
        description="Run a threaded program (a file, a folder, or -m MODULE) by many seeds. A seed decides the turns "
        "of threads, the time and all draws. Failing runs are shortened.",
    )
    add = parser.add_argument
    add("--seeds", metavar="N", type=count, default=SEEDS, help=f"run this number of seeds (default: {SEEDS})")
    add("--seed", metavar="S", type=seed, help="run this seed only, with its output")
    add("--switches", metavar="TEXT", type=switches, help="replay these switches, as a report prints them")
    add("--strategy", metavar="NAME", type=strategy, default=strategy_of("mixed"))
    parser._actions[-1].help = "mixed, random[:RATE], pct[:DEPTH], fifo, exhaustive[:PREEMPTIONS] (default: mixed)"
    add("--preempt", choices=[*POINTS, "none"], default="lines", help="where threads are switched (default: lines)")
    add("--module", metavar="NAME", action="append", default=[], help="an installed package to be preempted")
    add("--allow", choices=sorted(OUTSIDE), action="append", default=[], help="let real calls of this kind through")
    add("--faults", metavar="FILE", type=faults, help="hosts, links and faults of the network, in TOML")
    add("--only-faults", metavar="TEXT", type=only_faults, help="let only these faults of a report happen")
    add("--check", action="store_true", help="run each seed twice and compare the events")
    add("--keep-going", action="store_true", help="go on after a failure")
    add("--jobs", metavar="N", type=count, help="processes at once (default: one for each core)")
    add("--first", metavar="S", type=seed, default=0, help="the first seed (default: 0)")
    help = f"a run of more events fails (default: {MAX_EVENTS})"
    add("--max-events", metavar="N", type=count, default=MAX_EVENTS, help=help)
    help = f"a run of more virtual time fails (default: {MAX_SECONDS:.0f})"
    add("--max-seconds", metavar="S", type=seconds, default=MAX_SECONDS, help=help)
    help = f"let threads stand still between lines for this virtual time in all; 0: never (default: {STALLS:g})"
    add("--stalls", metavar="S", type=seconds, default=STALLS, help=help)
    add("--tasks", action="store_true", help="also draw the order of ready asyncio tasks")
    help = f"end and fail a run after this real time (default: {REAL_SECONDS:g}; with --seed: none)"
    add("--timeout", metavar="S", type=seconds, help=help)
    return parser
