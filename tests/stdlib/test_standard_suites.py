"""The suites of the running Python against our classes: ``test.lock_tests``, ``test_queue``, ``test_threading_local``.

Each is loaded as a copy of its module whose imports are answered here, and runs twice: with the OS threads that it
makes, and with dhagas in their place, on the virtual clock. What does not apply stands in ``NOT_APPLICABLE``.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib.util
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga.queue
import dhaga.threading
from dhaga.testing import virtual_clock

WHY_NOT = "this interpreter ships without the package `test`"
support = pytest.importorskip("test.support", reason=WHY_NOT)
threading_helper = pytest.importorskip("test.support.threading_helper", reason=WHY_NOT)

TAKES_A_LOCK = "a Condition takes a lock: the standard's own suite leaves it out, too"
OWN_REPR = "our repr tells who holds it and who waits, instead of an address"
NOT_APPLICABLE = {
    "Lock test_repr": OWN_REPR,
    "Lock test_locked_repr": OWN_REPR,
    "RLock test_repr": OWN_REPR,
    "RLock test_locked_repr": OWN_REPR,
    "RLock test_repr_count": OWN_REPR,
    "ConditionAsRLock test_repr": OWN_REPR,
    "ConditionAsRLock test_locked_repr": OWN_REPR,
    "ConditionAsRLock test_repr_count": OWN_REPR,
    **({"ConditionAsRLock test_constructor_noargs": TAKES_A_LOCK} if sys.version_info >= (3, 15) else {}),
    "Event test_repr": OWN_REPR,
    "Semaphore test_repr": OWN_REPR,
    "BoundedSemaphore test_repr": OWN_REPR,
    "Barrier test_repr": OWN_REPR,
}
"""Why a test cannot pass here, by "suite test" for both modes or "mode suite test" for one."""

POLLS = "polls get(False) in a loop without a pause: only preemption would ever let the others run"
NEVER_ENDS = {
    f"dhagas {kind} test_shutdown_{how}all_methods_in_many_threads": POLLS
    for kind in ("Queue", "LifoQueue", "PriorityQueue")
    for how in ("", "immediate_")
}
"""The same, for what is not even tried."""


def load(name: str, instead: dict[str, Any]) -> types.ModuleType:
    """Return a fresh copy of ``test.NAME`` for which the modules named in ``instead`` are others."""
    origin = Path(support.__file__).parent.parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"copy of {name}", origin)
    assert spec is not None and spec.loader is not None

    def import_for_it(module: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0) -> Any:
        return instead[module] if module in instead else __import__(module, globals, locals, names, level)

    copy = importlib.util.module_from_spec(spec)
    copy.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_for_it}
    spec.loader.exec_module(copy)
    return copy


class Clock:
    """The module ``time`` on the virtual clock of the test that runs."""

    now: Callable[[], float]

    def monotonic(self) -> float:
        return self.now()

    time = perf_counter = monotonic
    sleep = staticmethod(dhaga.sleep)


clock = Clock()


def sleeping_retry(seconds: float, *_: object) -> Iterator[None]:
    deadline = clock.now() + seconds
    while clock.now() < deadline:
        yield
        dhaga.sleep(0.01)
    raise AssertionError("timeout")


@contextlib.contextmanager
def wait_threads_exit(timeout: float | None = None) -> Iterator[None]:
    """Wait until the dhagas of the block have ended."""
    live = dhaga.current().scheduler.live
    before = set(live)
    yield
    while left := live - before:
        left.pop().join()


def dhaga_modules() -> dict[str, Any]:
    """Return what the suites import, with dhagas in the place of OS threads."""
    helper = types.SimpleNamespace(
        **{
            **vars(threading_helper),
            "threading_setup": lambda: (),
            "threading_cleanup": lambda *_: None,
            "wait_threads_exit": wait_threads_exit,
        }
    )
    own = types.SimpleNamespace(
        **{**vars(support), "threading_helper": helper, "sleeping_retry": sleeping_retry, "busy_retry": sleeping_retry}
    )
    start = types.SimpleNamespace(
        start_new_thread=lambda fn, args: dhaga.spawn(fn, *args).ident,
        TIMEOUT_MAX=dhaga.threading.TIMEOUT_MAX,
        _local=dhaga.threading.local,
    )
    return {
        "threading": dhaga.threading,
        "_thread": start,
        "time": clock,
        "test": types.SimpleNamespace(support=own),
        "test.support": own,
    }


def lock_suites(module: types.ModuleType) -> dict[str, type]:
    t = dhaga.threading
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "Lock": (module.LockTests, {"locktype": t.Lock}),
        "RLock": (module.RLockTests, {"locktype": t.RLock}),
        "ConditionAsRLock": (module.RLockTests, {"locktype": t.Condition}),
        "Event": (module.EventTests, {"eventtype": t.Event}),
        "Condition": (module.ConditionTests, {"condtype": t.Condition}),
        "Semaphore": (module.SemaphoreTests, {"semtype": t.Semaphore}),
        "BoundedSemaphore": (module.BoundedSemaphoreTests, {"semtype": t.BoundedSemaphore}),
        "Barrier": (module.BarrierTests, {"barriertype": t.Barrier}),
    }
    return {
        name: type(name, (base,), {key: staticmethod(value) for key, value in names.items()})
        for name, (base, names) in kinds.items()
    }


def queue_suites(module: types.ModuleType) -> dict[str, type]:
    q = dhaga.queue
    kinds = {
        "Queue": (module.QueueTest, {"queue": q}),
        "LifoQueue": (module.LifoQueueTest, {"queue": q}),
        "PriorityQueue": (module.PriorityQueueTest, {"queue": q}),
        "FailingQueue": (module.FailingQueueTest, {"queue": q}),
        "SimpleQueue": (
            module.BaseSimpleQueueTest,
            {"queue": q, "type2test": q.SimpleQueue, "setUp": set_up_simple_queue},
        ),
    }
    return {name: type(name, (base, unittest.TestCase), names) for name, (base, names) in kinds.items()}


def set_up_simple_queue(self: Any) -> None:
    self.q = self.type2test()


def local_suites(module: types.ModuleType) -> dict[str, type]:
    return {"local": type("local", (unittest.TestCase, module.BaseLocalTest), {"_local": dhaga.threading.local})}


SUITES = {"lock_tests": lock_suites, "test_queue": queue_suites, "test_threading_local": local_suites}


def cases() -> Iterator[Any]:
    for mode, instead in (("threads", {}), ("dhagas", dhaga_modules())):
        for name, suites in SUITES.items():
            for suite, kind in suites(load(name, instead)).items():
                for test in unittest.defaultTestLoader.getTestCaseNames(kind):
                    key = f"{suite} {test}"
                    reason = NOT_APPLICABLE.get(key) or NOT_APPLICABLE.get(f"{mode} {key}")
                    marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
                    if f"{mode} {key}" in NEVER_ENDS:
                        marks = [pytest.mark.xfail(reason=NEVER_ENDS[f"{mode} {key}"], run=False)]
                    yield pytest.param(mode, kind, test, id=f"{mode}-{suite}-{test}", marks=marks)


@pytest.fixture(autouse=True)
def little_garbage() -> Iterator[None]:
    """Keep what the test runner holds out of the suites' many collections: half of their time."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize(("mode", "kind", "test"), [*cases()])
def test_standard(mode: str, kind: type[unittest.TestCase], test: str) -> None:
    case = kind(test)
    with contextlib.ExitStack() as stack:
        if mode == "dhagas":
            clock.now = stack.enter_context(virtual_clock())
        result = unittest.TestResult()
        case.run(result)
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    problems = [text for _, text in result.failures + result.errors]
    assert not problems, problems[0]
