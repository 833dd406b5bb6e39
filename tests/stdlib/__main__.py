"""Run CPython's own test modules under the patch, and compare with what is expected: ``python -m tests.stdlib``.

It fails if a test fails, hangs, dies, is skipped or is missing that does not so without the patch, unless
``known.toml`` has it with its reason; and if one passes that ``known.toml`` has.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from tests.kit.suite import terminated
from tests.stdlib.expectations import Set, known_losses, lost_by_gevent
from tests.stdlib.run import over
from tests.stdlib.trial import Trial

COUNTS = ("passed", "failed", "known to fail", "skipped", "shaky")


class Run:
    """Several modules, some at a time, and what to say of them."""

    def __init__(self, chosen: Set, workers: int) -> None:
        self.chosen = chosen
        self.workers = workers
        self.trials: list[Trial] = []
        """Those that are done."""
        self.cut_off: list[str] = []
        self.missing = [module for module in chosen.modules if not is_here(module)]
        self.began = time.monotonic()

    def run(self) -> None:
        known = known_losses()
        if self.missing:
            print(f"not in Python {platform.python_version()}: {', '.join(self.missing)}")
        trials = [Trial(module, self.chosen, known) for module in self.chosen.modules if is_here(module)]
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for done in as_completed([pool.submit(trial.run) for trial in trials]):
                    self.trials.append(done.result())
                    print(line_of(self.trials[-1]), flush=True)
            except BaseException:
                self.cut_off = [trial.module for trial in trials if trial.is_running]
                over.set()
                pool.shutdown(cancel_futures=True)
                raise

    def tell(self) -> bool:
        """Print what is not as expected, and the sums; whether all is as expected."""
        for trial in self.trials:
            for test, record in trial.to_tell().items():
                print(f"\n== {test} {record.outcome}\n{record.text}")
        print(*self.headlines(), sep="\n")
        counts = sum((trial.counts() for trial in self.trials), Counter[str]())
        print(f"== {sums(counts)} in {time.monotonic() - self.began:.0f} s on Python {platform.python_version()}")
        return not counts["failed"] and bool(self.trials)

    def headlines(self) -> Iterator[str]:
        """Yield a line for each test that is not as expected."""
        for module in self.cut_off:
            yield f"TERMINATED {module}"
        for trial in self.trials:
            for test, record in trial.shaky.items():
                yield f"shaky {test} {record.outcome}, and passes when run again - {why(record.text)}"
        for trial in self.trials:
            for test, record in trial.to_tell().items():
                yield f"FAILED {test} - {record.outcome}: {why(record.text)}"
            for test in trial.passing_losses():
                yield f"FAILED {test} - passes, though known.toml says that it fails: {trial.known[test].reason}"

    def compare(self) -> None:
        """Print how what fails compares with what gevent loses."""
        losses = lost_by_gevent()
        if losses is None:
            return
        tests = {test for trial in self.trials for test in trial.existing}
        failing = {test for trial in self.trials for test in trial.worse}
        print(f"== of {len(losses & tests)} tests that fail with gevent, {len((losses & tests) - failing)} pass")
        print(*(f"   passes with gevent: {test}" for test in sorted(failing - losses)), sep="\n")

    def tell_slowest(self, number: int) -> None:
        tests = [(record.seconds, test) for trial in self.trials for test, record in trial.records.items()]
        for seconds, test in sorted(tests, reverse=True)[:number]:
            print(f"{seconds:8.1f} s {test}")


def is_here(module: str) -> bool:
    """Tell whether this interpreter ships a test module."""
    return importlib.util.find_spec(f"test.{module}") is not None


def line_of(trial: Trial) -> str:
    return f"{trial.module:24} {sums(trial.counts())}  {trial.seconds:.1f} s"


def sums(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in COUNTS if counts[name] or name in ("passed", "failed"))


def why(text: str) -> str:
    """Return the line of a traceback that tells most."""
    lines = [line for line in text.splitlines() if re.match(r"\S", line)] or [""]
    return lines[0 if lines[0].startswith(("no news", "the process", "does not")) else -1][:200]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stdlib", description="Run CPython's tests under the patch.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as test_queue; all of the set, unless given")
    parser.add_argument("--quick", action="store_true", help="leave out what is slow")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many modules to run at a time")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="print the N tests that take longest")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    chosen = Set.named("quick" if options.quick else "full")
    run = Run(chosen.only(options.modules), options.workers)
    try:
        run.run()
    finally:
        run.compare()
        well = run.tell()
        run.tell_slowest(options.slowest)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
