"""Run one of CPython's test modules in this process, and write down each test as it begins and ends.

``tests/stdlib/run.py`` starts this, patched or not, with a plan (JSON) as its argument. The journal is opened for each
entry, as tests close fds, fork and die at will: ``{"tests": […]}`` once the module is loaded; ``{"begin": …}``,
``{"test": …, "outcome": …, "text": …}`` and ``{"end": …, "seconds": …}`` for each; ``{"done": true}`` last.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import posix  # the patch is in ``os``
import re
import signal
import sys
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from typing import Any, TextIO

TRACE_SIGNAL = signal.SIGRTMAX - 2 if hasattr(signal, "SIGRTMAX") else signal.SIGUSR2
"""Has faulthandler, and then Dhaga, say where this process stands. No test sends it."""


class Journal:
    """The file that the parent reads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.process = posix.getpid()

    def write(self, **entry: Any) -> None:
        if posix.getpid() != self.process:
            posix._exit(99)  # a forked child has left its test
        file = posix.open(self.path, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT, 0o600)
        try:
            posix.write(file, f"{json.dumps(entry)}\n".encode())
        finally:
            posix.close(file)


class Result(unittest.TestResult):
    """What unittest tells, written down at once."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self.journal = journal

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self.began = time.monotonic()
        self.journal.write(begin=name_of(test))

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        self.journal.write(end=name_of(test), seconds=time.monotonic() - self.began)

    def say(self, test: Any, outcome: str, why: Any = "") -> None:
        text = why if isinstance(why, str) else told(*why)
        self.journal.write(test=name_of(getattr(test, "test_case", test)), outcome=outcome, text=text[-4000:])

    def addSuccess(self, test: Any) -> None:
        self.say(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        self.say(test, "failed", err)

    addError = addFailure

    def addSkip(self, test: Any, reason: str) -> None:
        self.say(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.say(test, "passed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.say(test, "failed", "passes, where it should fail")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.say(subtest, "failed", err)

    def addDuration(self, test: Any, elapsed: float) -> None:
        pass


def told(kind: Any, error: BaseException, trace: Any) -> str:
    """Return a traceback without the frames of unittest around a test."""
    while trace and trace.tb_next and "/unittest/" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return "".join(traceback.format_exception(kind, error, trace))


def name_of(test: Any) -> str:
    """Return the name a test was given by ``tests_of``; of a fixture, its own: ``setUpClass (test.test_x.Kind)``."""
    return str(getattr(test, "name_here", None) or test.id())


def tests_of(module: Any, package: str) -> Iterator[Any]:
    """Yield the tests of a module in their order, and give each a name, the same in every process."""
    names: dict[str, int] = {}
    waiting: list[Any] = [unittest.TestLoader().loadTestsFromModule(module)]
    short = module.__name__.removeprefix(f"{package}.")
    while waiting:
        test = waiting.pop(0)
        if isinstance(test, unittest.BaseTestSuite):
            waiting[:0] = test
            continue
        name = test.id().removeprefix(f"{package}.")
        name = name if name.startswith(f"{short}.") else f"{short}.{name}"
        names[name] = times = names.get(name, 0) + 1
        test.name_here = name if times == 1 else f"{name}#{times}"
        yield test


def ease_support() -> None:
    """Have ``test.support`` leave two things alone, as gevent's own harness does, so that the figures compare.

    It counts the OS threads that C code has started, and dhagas are none; and it loads fresh copies of modules, which
    no patch has seen.
    """
    from test.support import import_helper, threading_helper

    @contextlib.contextmanager
    def no_count(timeout: float | None = None) -> Iterator[None]:
        yield

    def not_fresh(name: str, *_: object, **__: object) -> Any:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)

    helpers: Any = threading_helper
    helpers.threading_setup = lambda: (1, 0)
    helpers.threading_cleanup = lambda *_: None
    helpers.wait_threads_exit = no_count
    import_helper.import_fresh_module = not_fresh


def prepare(plan: dict[str, Any]) -> None:
    """Make the package ``test`` ready."""
    from test import support

    support.verbose = 0
    support.use_resources = plan["resources"]
    ease_support()


def run(plan: dict[str, Any], journal: Journal) -> None:
    """Load a module and run those of its tests that the plan leaves."""
    try:
        tests = [*tests_of(importlib.import_module(plan["module"]), plan["package"])]
    except unittest.SkipTest as reason:
        journal.write(test=plan["loading"], outcome="skipped", text=str(reason))
        return
    except Exception:
        journal.write(test=plan["loading"], outcome="failed", text=traceback.format_exc())
        return
    tests = [test for test in tests if not re.search(plan["left_out"] or "^$", test.name_here)]
    journal.write(tests=[test.name_here for test in tests])
    wanted = set(plan["only"] if plan["only"] is not None else [test.name_here for test in tests]) - {*plan["without"]}
    unittest.TestSuite([test for test in tests if test.name_here in wanted]).run(Result(journal))


def tell_at_signal(trace: TextIO) -> None:
    """Write at ``TRACE_SIGNAL`` what each OS thread executes, and then each dhaga's stack, if the main thread can."""

    def tell(*_: object) -> None:
        if "dhaga" in sys.modules:
            from dhaga.debug import dump

            print(dump(0), file=trace, flush=True)

    signal.signal(TRACE_SIGNAL, tell)
    faulthandler.register(TRACE_SIGNAL, trace, chain=True)


def main(prepare: Callable[[dict[str, Any]], None] = prepare) -> None:
    """Do what the plan says, after ``prepare(plan)``."""
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    sys.argv[1:] = []
    tell_at_signal(open(plan["trace"], "w"))  # noqa: SIM115
    journal = Journal(plan["journal"])
    prepare(plan)
    try:
        run(plan, journal)
    except KeyboardInterrupt:
        journal.write(left=traceback.format_exc())
        raise
    journal.write(done=True)


if __name__ == "__main__":
    main()
