"""Run tests of gevent, eventlet and programs on them on Dhaga, and compare: ``python -m tests.peers gevent``.

What counts is each test that passes with the real peer in the same environment. It fails if one of these fails on Dhaga
and the list of its suite (``gevent.toml``) does not have it with its reason; if one passes that the list has; and if
less than the target passes. A suite that cannot be installed, as when offline, is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.kit.suite import terminated
from tests.peers.peer import NAMES, PYTHON, ROOT, Environment, Peer, Unavailable
from tests.peers.run import PeerTrial
from tests.stdlib.__main__ import why
from tests.stdlib.run import over


class Run:
    """The modules of one peer, some at a time, and what to say of them."""

    def __init__(self, peer: Peer, environment: Environment, modules: Sequence[str]) -> None:
        self.peer = peer
        self.environment = environment
        self.modules = [module for module in peer.modules if not modules or module in modules]
        self.trials: list[PeerTrial] = []
        self.baseline: dict[str, list[str]] = {}

    def run(self, workers: int, fresh: bool) -> None:
        """Run them. What passes with the peer is taken from the last run unless ``fresh``."""
        file = self.environment.baseline(self.peer)
        if file.exists():
            self.baseline = json.loads(file.read_text())
        trials = [self.trial(module) for module in self.modules]
        with ThreadPoolExecutor(workers) as pool:
            running = [pool.submit(each.run, None if fresh else self.baseline.get(each.module)) for each in trials]
            try:
                for done in as_completed(running):
                    self.trials.append(trial := done.result())
                    self.baseline[trial.module] = trial.baseline
                    file.write_text(json.dumps(self.baseline, indent=1))
                    print(f"{trial.module:26} {share([trial])}", flush=True)
            except BaseException:
                over.set()
                pool.shutdown(cancel_futures=True)
                raise

    def trial(self, module: str) -> PeerTrial:
        return PeerTrial(module, self.peer, self.environment.python, self.environment.sources(self.peer))

    def tell(self, verbose: bool) -> bool:
        """Print what is not as expected, and the sums; whether all is as expected."""
        lines = [*self.headlines(verbose)]
        print(*lines, sep="\n")
        passed, of = totals(self.trials)
        well = not any(line.startswith("FAILED") for line in lines) and passed >= self.peer.target * of > 0
        print(f"== {self.peer.requirement}: {share(self.trials)} on Python {PYTHON}; to reach: {self.peer.target:.0%}")
        return well

    def headlines(self, verbose: bool) -> Iterator[str]:
        for trial in self.trials:
            for test in sorted(trial.shaky):
                yield f"shaky {test}: passes when run again"
            for test, record in trial.unknown.items():
                yield f"FAILED {test} - {record.outcome}: {record.text if verbose else why(record.text)}"
            for test in trial.passing_losses:
                yield f"FAILED {test} - passes, though {self.peer.name}.toml says: {trial.loss(test).reason}"


def totals(trials: Sequence[PeerTrial]) -> tuple[int, int]:
    return sum(trial.passed for trial in trials), sum(len(trial.baseline) for trial in trials)


def share(trials: Sequence[PeerTrial]) -> str:
    passed, of = totals(trials)
    return f"{passed} of {of} passed, {passed / of:.1%}" if of else "none passes with the peer itself"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.peers", description="Run suites of gevent, eventlet and programs on them on Dhaga."
    )
    parser.add_argument("peer", nargs="?", choices=NAMES, help="all, unless given")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as test__pool; all listed, unless given")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many modules to run at a time")
    parser.add_argument("--fresh", action="store_true", help="measure anew what passes with the peer itself")
    parser.add_argument("--verbose", action="store_true", help="print whole tracebacks")
    parser.add_argument("--environment", type=Path, default=ROOT / f".venv-peers-{PYTHON}", help="where to install")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    well = True
    for name in [options.peer] if options.peer else NAMES:
        began = time.monotonic()
        run = Run(Peer.named(name), Environment(options.environment.absolute()), options.modules)
        try:
            run.environment.make(run.peer)
        except Unavailable as reason:
            print(f"skipped: {reason}")
            well = well and "DHAGA_REQUIRE_SERVICES" not in os.environ
            continue
        try:
            run.run(options.workers, options.fresh)
        finally:
            well = run.tell(options.verbose) and well
            print(f"== {time.monotonic() - began:.0f} s")
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
