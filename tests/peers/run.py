"""One module of a peer's tests: what passes with the peer itself, and what of that passes on Dhaga."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.peers.peer import Loss, Peer
from tests.stdlib.run import PROGRAM, ModuleRun, Record

CHILD = Path(__file__).with_name("child.py")

MISSING = Record("lost", "there is no such test on Dhaga")


@dataclass
class PeerRun(ModuleRun):
    """One module in as many processes as that takes; ``patched`` says whether it runs on Dhaga."""

    peer: Peer = field(kw_only=True)
    python: Path = field(kw_only=True)
    """The interpreter of the scratch environment."""
    sources: Path = field(kw_only=True)

    def command(self) -> list[str]:
        return [str(self.python), "-c", PROGRAM, str(CHILD)]

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | self.peer.environ

    def plan(self) -> dict[str, Any]:
        bridge = self.peer.bridge if self.patched else ""
        path = [] if self.peer.source == "wheel" else [str(self.sources)]
        return super().plan() | {"module": f"{self.package}.{self.module}", "path": path, "bridge": str(bridge)}


class PeerTrial:
    """A module on Dhaga beside what passes in it with the peer."""

    def __init__(self, module: str, peer: Peer, python: Path, sources: Path) -> None:
        self.module = module
        self.peer = peer
        self.python = python
        self.sources = sources
        self.baseline: list[str] = []
        """The tests that pass with the peer itself."""
        self.failing: dict[str, Record] = {}
        """Those of them that do not pass here, known or not."""
        self.shaky: set[str] = set()
        """Those that failed, and passed when run again."""

    def run(self, baseline: list[str] | None = None) -> PeerTrial:
        """Run the module on Dhaga, and with the peer unless it is known what passes there."""
        passing = self.passing_with_peer() if baseline is None else baseline
        self.baseline = [test for test in passing if test not in self.peer.left_out]
        only = {test for test in self.baseline if not self.loss(test).hangs}
        records = self.tried(True, only)
        failed = {test for test in only if records.get(test, MISSING).outcome != "passed"}
        doubtful = {test for test in failed if test not in self.peer.known}
        again = self.tried(True, doubtful) if doubtful else {}
        self.shaky = {test for test in doubtful if again.get(test, MISSING).outcome == "passed"}
        for test in self.baseline:
            if test not in only:
                self.failing[test] = Record("hung", self.loss(test).reason)
            elif test in failed and test not in self.shaky:
                self.failing[test] = records.get(test) or self.why_missing(records)
        return self

    def passing_with_peer(self) -> list[str]:
        return [test for test, record in self.tried(False, None).items() if record.outcome == "passed"]

    def tried(self, on_dhaga: bool, only: Collection[str] | None) -> dict[str, Record]:
        run = PeerRun(
            self.module,
            on_dhaga,
            self.peer.limits,
            only,
            package=self.peer.tests,
            peer=self.peer,
            python=self.python,
            sources=self.sources,
        )
        return run.run()

    def why_missing(self, records: dict[str, Record]) -> Record:
        return records.get(f"{self.module}.(module)", MISSING)

    def loss(self, test: str) -> Loss:
        return self.peer.known.get(test, Loss(""))

    @property
    def unknown(self) -> dict[str, Record]:
        """What fails and is not listed."""
        return {test: record for test, record in self.failing.items() if test not in self.peer.known}

    @property
    def passing_losses(self) -> list[str]:
        """What passes though it is listed."""
        return [
            test
            for test in self.baseline
            if test in self.peer.known and test not in self.failing and not self.loss(test).flaky
        ]

    @property
    def passed(self) -> int:
        return len(self.baseline) - len(self.failing)
