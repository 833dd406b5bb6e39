"""The kernel's clocks: which functions of the package read the real one, and that no test can replace it.

Three kinds of clock: the program's (``time.monotonic``, which freezegun and others replace), a scheduler's (virtual in
tests), and the real one in ``originals``. The deadline of a caller that may park is by its scheduler's clock.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator

import pytest

from tests.kit.scripts import prints
from tests.kit.sources import sources_with

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}

REAL_DEADLINES = {
    # In an OS thread without dhagas, on the hub or in C.
    "_kernel/process/preemption_watcher.py:Watcher._pause": "the watcher's thread",
    "_kernel/process/preemption_watcher.py:Watcher._run": "the watcher's thread",
    "_kernel/helper_threads.py:wait_until_gone": "the thread of a fork, until helper threads have left /proc",
    "_workers/offload.py:end_idle_threads": "the thread of a fork, until pool threads have ended",
    "integrations/sqlite3.py:called_in_slices": "SQLite waits in C, by the real clock",
    "_kernel/wait/thread_waiter.py:OSThread.block": "a plain OS thread",
    "_sync/lock.py:OwnedLock._acquire_on_loop": "the hub, which sleeps in C for at most a millisecond",
    "_sync/mutex.py:Mutex.acquire_slowly": "the hub, which sleeps in C; a caller that parks has no deadline",
    "debug/_on_demand.py:OnDemand.is_wanted": "the inspector's thread",
    "debug/_remote/web_page.py:": "the inspector's thread",
    "debug/_snapshot.py:snapshot": "schedulers of other OS threads, which answer in real time",
    # Main code of a process without dhagas.
    "servers/_prefork.py:": "the master, which waits in a selector of its own",
    # At the end of the process, in real time.
    "_kernel/process/process_exit.py:": "the interpreter's exit",
    "_kernel/process/signals.py:": "since when an interrupt has had no answer",
    "_workers/offload.py:wait_for_calls": "the interpreter's exit",
}
"""Functions with a deadline by the real clock, and why. A name that ends with a colon: the whole file."""

PROGRAMS_CLOCKS = {
    "_cli/top_terminal.py": "a program of its own",
    "integrations/celery/_jobs.py": "Celery compares it with its own reading",
    "simulation/_history/history.py": "times in the program's own terms, which a report shows",
    "simulation/_search/search.py": "the search, outside its simulations",
    "time.py": "the face of time",
}
"""Modules that read the program's clocks by name, and why."""


def modules(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the path and the tree of each module of the package that contains one of the words."""
    return ((path, ast.parse(source)) for path, source in sources_with(*words))


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of a module with their qualified names; nested ones belong to the outermost."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")


def is_reading(node: ast.AST) -> bool:
    """Return whether an expression holds a reading of the real clock."""
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        and each.func.attr == "monotonic" and getattr(each.func.value, "id", "") == "originals"
        for each in ast.walk(node)
    )  # fmt: skip


def makes_deadline(function: ast.AST) -> bool:
    """Return whether a reading is added to seconds, compared, or subtracted from a name with "deadline" in it."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and is_reading(node):
            if isinstance(node.op, ast.Add) or "deadline" in ast.unparse(node.left):
                return True
        elif isinstance(node, ast.Compare) and is_reading(node):
            return True
    return False


def real_deadlines(source: ast.Module) -> list[str]:
    return [name for name, function in functions(source) if makes_deadline(function)]


def allowed(name: str) -> bool:
    return name in REAL_DEADLINES or f"{name.partition(':')[0]}:" in REAL_DEADLINES


def test_a_deadline_of_a_caller_that_may_park_is_by_its_schedulers_clock() -> None:
    found = [f"{path}:{name}" for path, tree in modules("monotonic") for name in real_deadlines(tree)]
    assert [name for name in found if not allowed(name)] == []
    unused = [entry for entry in REAL_DEADLINES if not any(name.startswith(entry) for name in found)]
    assert unused == []


def test_a_deadline_by_the_real_clock_is_found() -> None:
    source = """
class Pool:
    def join(self, timeout):
        deadline = originals.monotonic() + timeout
    def measured(self):
        return originals.monotonic() - self.began
def left(deadline):
    return max(0, deadline - originals.monotonic())
def over(limit):
    return originals.monotonic() >= limit
"""
    assert real_deadlines(ast.parse(source)) == ["Pool.join", "left", "over"]


def reads_programs_clock(tree: ast.Module) -> bool:
    """Return whether a module imports a clock from ``time``, or reads one through ``time`` under any alias."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and not node.level:
            if CLOCKS & {alias.name for alias in node.names}:
                return True
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "time"}
    return any(
        isinstance(node, ast.Attribute) and node.attr in CLOCKS and getattr(node.value, "id", None) in names
        for node in ast.walk(tree)
    )


def test_the_package_reads_the_programs_clocks_only_where_they_are_meant() -> None:
    readers = (path for path, tree in modules(*CLOCKS) if reads_programs_clock(tree))
    assert sorted(readers) == sorted(PROGRAMS_CLOCKS)


# ---- clocks that a test has stopped

WAITS = """
    import os, signal, sys
    import dhaga, dhaga.threading

    def passed(call, *errors):
        try:
            call()
        except errors:
            pass

    def condition():
        waited = threading.Condition()
        with waited:
            waited.wait(0.05)

    def full_socket(timeout):
        one, other = socket.socketpair()
        one.settimeout(timeout)
        kept.append(other)
        one.sendall(bytes(10_000_000))

    def quiet(timeout):
        one, other = socket.socketpair()
        one.settimeout(timeout)
        kept.append(other)
        return one

    def selector():
        with selectors.DefaultSelector() as found:
            found.register(quiet(None), selectors.EVENT_READ)
            found.select(0.05)

    def taken(lock):
        lock.acquire()
        return lock

    def scope():
        with dhaga.move_on_after(0.05):
            dhaga.sleep(600)

    def dhaga_timeout():
        with dhaga.Timeout(0.05):
            dhaga.sleep(600)

    kept = []
    full = queue.Queue(1)
    full.put(1)
    release = threading.Event()
    sleeper = threading.Thread(target=release.wait)
    sleeper.start()
    child = subprocess.Popen(["sleep", "60"])
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    waits = {
        "sleep": lambda: time.sleep(0.05),
        "Lock": lambda: taken(threading.Lock()).acquire(timeout=0.05),
        "Semaphore": lambda: threading.Semaphore(0).acquire(timeout=0.05),
        "Event": lambda: threading.Event().wait(0.05),
        "Condition": condition,
        "Barrier": lambda: passed(lambda: threading.Barrier(2).wait(0.05), threading.BrokenBarrierError),
        "Thread.join": lambda: sleeper.join(0.05),
        "Queue.get": lambda: passed(lambda: queue.Queue().get(timeout=0.05), queue.Empty),
        "Queue.put": lambda: passed(lambda: full.put(1, timeout=0.05), queue.Full),
        "SimpleQueue": lambda: passed(lambda: queue.SimpleQueue().get(timeout=0.05), queue.Empty),
        "Future.result": lambda: passed(lambda: Future().result(0.05), TimeoutError),
        "futures.wait": lambda: wait([Future()], 0.05),
        "recv": lambda: passed(lambda: quiet(0.05).recv(1), TimeoutError),
        "sendall": lambda: passed(lambda: full_socket(0.05), TimeoutError),
        "accept": lambda: passed(listener.accept, TimeoutError),
        "select": lambda: select.select([quiet(None)], [], [], 0.05),
        "selector": selector,
        "Popen.wait": lambda: passed(lambda: child.wait(0.05), subprocess.TimeoutExpired),
        "Event, in an OS thread": lambda: dhaga.offload(dhaga.threading.Event().wait, 0.05),
        "move_on_after": scope,
        "dhaga.Timeout": lambda: passed(dhaga_timeout, TimeoutError),
    }
"""

FROZEN = """
    ended = []

    def wait_for(name):
        waits[name]()
        ended.append(name)

    def judge(*_):
        print("never ended:", sorted(set(waits) - set(ended)))
        print("cut short:", short)
        child.kill()
        os._exit(0)

    short = []
    early = threading.Event()
    threading.Thread(target=lambda: (early.wait(600), short.append("Event.wait"))).start()
    signal.signal(signal.SIGALRM, judge)
    signal.alarm(30)
    time.sleep(0.01)
    with frozen():
        threads = [threading.Thread(target=wait_for, args=(name,)) for name in waits]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    judge()
"""

NATIVE = """
    from dhaga import queue, select, selectors, socket, subprocess, threading, time
    from dhaga.futures import Future, wait
"""

PATCHED = """
    import dhaga.monkey
    dhaga.monkey.patch()
    import queue, select, selectors, socket, subprocess, threading, time
    from concurrent.futures import Future, wait
"""

FREEZERS = {
    "freezegun": 'freezegun.freeze_time("2030-01-01")',
    "freezegun, ticking": 'freezegun.freeze_time("2030-01-01", tick=True)',
    "freezegun, in steps": 'freezegun.freeze_time("2030-01-01", auto_tick_seconds=1000)',
    "time_machine": 'time_machine.travel("2030-01-01", tick=False)',
}
"""Ways to stop or move the program's clocks, by package."""


@pytest.mark.parametrize("form", ["native", "patched"])
@pytest.mark.parametrize("freezer", FREEZERS)
def test_waits_end_in_time_while_a_test_has_stopped_the_clocks(freezer: str, form: str) -> None:
    package = freezer.partition(",")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    frozen = f"\n    import {package}\n    frozen = lambda: {FREEZERS[freezer]}\n"
    lines = prints((PATCHED if form == "patched" else NATIVE) + WAITS + frozen + FROZEN)
    assert lines == ["never ended: []", "cut short: []"]
