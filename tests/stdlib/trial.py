"""One of CPython's test modules under the patch and without it, beside what is expected of it.

Without the patch only those tests run that did not pass under it and are not known to fail: what fails either way says
something about the machine.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection

from tests.stdlib.expectations import Loss, Set
from tests.stdlib.run import ModuleRun, Record

GRADES = {"passed": 0, "skipped": 1}
"""How bad an outcome is. All others are worse, one as bad as the other."""

MANY = 30
"""Failures of a module that are too many to be chance: they are not tried again."""

PASSED = Record("passed")


class Trial:
    """A module, what its tests came to, and what of that is not as expected."""

    def __init__(self, module: str, chosen: Set, known: dict[str, Loss]) -> None:
        self.module = module
        self.chosen = chosen
        self.known = known
        self.seconds = 0.0
        self.is_running = False
        self.existing: list[str] = []
        """The tests there are without the patch."""
        self.records: dict[str, Record] = {}
        self.worse: dict[str, Record] = {}
        """What is worse under the patch, known or not."""
        self.shaky: dict[str, Record] = {}
        """What was worse, but passes when it is run again."""

    def run(self) -> Trial:
        began = time.monotonic()
        self.is_running = True
        self.records = self.tried(patched=True).records
        suspects = {test for test, record in self.records.items() if grade(record) and test not in self.known}
        bare = self.tried(patched=False, only=suspects)
        self.existing = bare.tests
        for test in bare.tests:
            self.records.setdefault(test, Record("lost", "there is no such test under the patch"))
        self.worse = {
            test: record
            for test, record in self.records.items()
            if grade(record) > grade(bare.records.get(test, PASSED))
        }
        self.try_again()
        self.seconds = time.monotonic() - began
        self.is_running = False
        return self

    def tried(self, patched: bool, only: Collection[str] | None = None) -> ModuleRun:
        run = ModuleRun(self.module, patched, self.chosen.limits, only, "|".join(self.chosen.left_out))
        if patched and only is None:
            run.records |= {test: Record("hung", loss.reason) for test, loss in self.hanging().items()}
        run.run()
        return run

    def hanging(self) -> dict[str, Loss]:
        return {test: loss for test, loss in self.known.items() if loss.hangs and test.startswith(f"{self.module}.")}

    def try_again(self) -> None:
        """Run what fails once more, with all of its class: a busy machine may have been the cause."""
        failed = self.unknown_failures()
        if not 0 < len(failed) <= MANY:
            return
        classes = {class_of(test) for test in failed}
        only = {test for test in self.existing if class_of(test) in classes and test not in self.known}
        again = self.tried(patched=True, only=only).records
        for test in failed:
            if not grade(again.get(test, self.records[test])):
                self.shaky[test] = self.worse.pop(test)

    def unknown_failures(self) -> dict[str, Record]:
        return {test: record for test, record in self.worse.items() if test not in self.known}

    def to_tell(self) -> dict[str, Record]:
        """Return the unknown failures, without those that only follow from one: nothing is there if nothing loads."""
        failures = self.unknown_failures()
        whole = {test: record for test, record in failures.items() if test.endswith(".(module)")}
        return {test: record for test, record in failures.items() if not whole or record.outcome != "lost"}

    def passing_losses(self) -> list[str]:
        """Return what passes though ``known.toml`` says that it fails."""
        return [
            test
            for test, record in self.records.items()
            if test in self.known and not self.known[test].flaky and not grade(record)
        ]

    def counts(self) -> Counter[str]:
        """Return how many tests came to what."""
        counts = Counter(record.outcome for test, record in self.records.items() if test not in self.worse)
        counts["failed"] = len(self.unknown_failures()) + len(self.passing_losses())
        counts["passed"] += len(self.shaky) - len(self.passing_losses())
        counts["known to fail"] = len(self.worse) - len(self.unknown_failures())
        return counts


def grade(record: Record) -> int:
    return GRADES.get(record.outcome, 2)


def class_of(test: str) -> str:
    return test.rpartition(".")[0]
