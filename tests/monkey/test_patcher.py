"""The patch: all or nothing, once, and taken back; every name of the table is there, and none is missing."""

from __future__ import annotations

import copy
import pickle
from pkgutil import resolve_name
from types import BuiltinFunctionType

import pytest

from dhaga import monkey
from dhaga.monkey._patcher import replacements
from dhaga.monkey._rebind import Replacement
from tests.kit.scripts import prints, run

DIFFERENT_BUT_LEFT = {
    ("io", "TextIOWrapper"): "made by our open() alone, over files that park",
    ("os", "fdopen"): "it calls io.open, which is replaced",
    ("ssl", "SSLContext"): "its sslsocket_class is replaced: the methods of the class use super()",
    ("ssl", "SSLSocket"): "contexts make ours by sslsocket_class; users name the class for isinstance",
    ("ssl", "create_connection"): "it is socket's, and follows that",
    ("ssl", "socket"): "it is socket's, and follows that",
    ("ssl", "create_default_context"): "it makes standard contexts, whose sockets are ours",
    ("ssl", "wrap_socket"): "the same, on Python 3.11",
    **{
        ("threading", name): "it takes its lock from threading, which is replaced"
        for name in ("concurrent_tee", "serialize_iterator", "synchronized_iterator")
    },
    ("asyncio", "DefaultEventLoopPolicy"): "from Python 3.14 on it is a deprecated name for the one of unix_events",
    ("threading", "excepthook"): "a program sets the standard one, which is called",
    **{
        (
            "time",
            name + unit,
        ): "it differs on a virtual clock, and would cost each call in a program three times as much"
        for name in ("monotonic", "perf_counter", "time")
        for unit in ("", "_ns")
    },
    **{
        ("subprocess", name): "it calls Popen, which is replaced"
        for name in ("call", "check_call", "check_output", "getoutput", "getstatusoutput", "run")
    },
}
"""Public names of ours that are other than the standard's, and why the patch can do without them."""


ROWS = [row for row in monkey.TABLE if row.when]


C_FUNCTIONS = [each for each in replacements() if isinstance(each.standard, BuiltinFunctionType)]
"""The replacements of functions that do not become methods where a class keeps them."""


PATCHED = {(row.module, name) for row in ROWS for name in row.names}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.module}.{row.names[0]}")
def test_every_name_of_the_table_is_there_on_both_sides(row: monkey.Row) -> None:
    standard, ours = resolve_name(row.module), resolve_name(row.ours)
    assert [name for name in row.names if not (hasattr(standard, name) and hasattr(ours, name))] == []


@pytest.mark.parametrize(
    ("module", "ours"), sorted({(row.module, row.ours) for row in ROWS if row.module != "asyncio.unix_events"})
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_public_name_that_differs_is_in_the_table(module: str, ours: str) -> None:
    standard, swapped = resolve_name(module), resolve_name(ours)
    differ = {
        (module, name)
        for name in getattr(swapped, "__all__", ())
        if hasattr(standard, name) and getattr(standard, name) is not getattr(swapped, name)
    }
    assert differ - PATCHED - set(DIFFERENT_BUT_LEFT) == set()


@pytest.mark.parametrize("each", C_FUNCTIONS, ids=lambda each: f"{each.module.__name__}.{each.name}")
def test_a_function_that_is_c_in_the_standard_stays_a_function_in_a_class(each: Replacement) -> None:
    kind = type("Holder", (), {each.name: each.ours})
    assert getattr(kind(), each.name) is getattr(kind, each.name) is each.ours
    assert copy.deepcopy(each.ours) is each.ours
    assert pickle.loads(pickle.dumps(each.ours)) is each.ours


def test_a_private_name_of_the_table_says_why() -> None:
    private = [row for row in monkey.TABLE if any(name.startswith("_") for name in row.names)]
    assert [row for row in private if not row.why and row.module != "_thread"] == []


NAMESPACES = """
    import sys

    def namespaces():
        return {
            (module, name): value
            for module, it in list(sys.modules.items()) if module.partition(".")[0] != "dhaga" and module != "__main__"
            for name, value in list(vars(it).items())
            if callable(value)
        }
"""


def test_loops_made_after_unpatch_are_the_standard_ones_again() -> None:
    program = """
import dhaga.monkey
dhaga.monkey.patch()
import asyncio, dhaga.simulation

async def parks():
    try:
        dhaga.sleep(0)
    except dhaga.ParkError:
        return "refused"
    return "parked"

print(asyncio.run(parks()))
dhaga.monkey.unpatch()
print(asyncio.run(parks()))
with dhaga.simulation.Simulation(0):
    print(asyncio.run(parks()))
print(asyncio.run(parks()))
"""
    ended = run(program)
    assert (ended.err, ended.lines) == ("", ["parked", "refused"] * 2)


def test_a_second_patch_does_nothing_and_unpatch_restores_all() -> None:
    assert prints(
        NAMESPACES
        + """
    import dhaga, dhaga.monkey, concurrent.futures.process, multiprocessing.dummy, logging.handlers, socketserver
    from threading import Lock, Thread
    import dhaga.monkey._patcher as monkey
    monkey.replacements()  # imports all
    bases = multiprocessing.dummy.DummyProcess.__bases__
    methods = dict(vars(Thread))
    before = namespaces()
    print(monkey.is_patched())
    monkey.patch()
    made = len(monkey.log.entries)
    patched = namespaces()
    monkey.patch()
    print(monkey.is_patched(), len(monkey.log.entries) == made, namespaces() == patched)
    import xmlrpc.server  # a new import
    monkey.unpatch()
    monkey.unpatch()
    after = namespaces()
    print(monkey.is_patched(), [name for name in before if after[name] is not before[name]])
    print(multiprocessing.dummy.DummyProcess.__bases__ == bases, dict(vars(Thread)) == methods)
    """
    ) == ["False", "True True True", "False []", "True True"]


def test_what_fails_in_the_middle_changes_nothing() -> None:
    assert prints(
        NAMESPACES
        + """
    import dhaga.monkey._patcher as monkey
    monkey.replacements()
    before = namespaces()

    def fails():
        raise MemoryError("in the middle")

    upgrade_locks, monkey.upgrade_locks = monkey.upgrade_locks, fails
    try:
        monkey.patch()
    except MemoryError as error:
        print(error, monkey.is_patched())
    after = namespaces()
    print([name for name in before if after[name] is not before[name]])
    monkey.upgrade_locks = upgrade_locks
    monkey.patch()
    print(monkey.is_patched())
    """
    ) == ["in the middle False", "[]", "True"]


def test_two_dhagas_import_one_module_at_once(tmp_path: object) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.05)\nready = True\n")  # type: ignore[operator]
    assert prints(
        f"""
    import dhaga.monkey
    dhaga.monkey.patch()
    import sys, threading, time
    sys.path.insert(0, {str(tmp_path)!r})
    seen = []

    def load():
        import slow
        seen.append(slow.ready)

    threads = [threading.Thread(target=load) for _ in range(20)]
    begin = time.monotonic()
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(seen == [True] * 20, time.monotonic() - begin < 5)
    """
    ) == ["True True"]


def test_a_patched_program_ends_as_with_threads() -> None:
    outcome = run("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import atexit, concurrent.futures, sys, threading, time

    def work(n):
        time.sleep(0.03)
        return n

    def daemon():
        try:
            time.sleep(100)
        finally:
            print("daemon ends")

    def fails():
        raise ValueError("told by the excepthook")

    worked = threading.Semaphore(0)
    executor = concurrent.futures.ThreadPoolExecutor(2)
    for n in range(3):
        executor.submit(work, n).add_done_callback(lambda future: (print("worked", future.result()), worked.release()))
    threading.Thread(target=daemon, daemon=True).start()
    threading.Thread(target=lambda: ([worked.acquire() for _ in range(3)], print("thread ends"))).start()
    threading.Thread(target=sys.exit, args=(5,)).start()
    threading.Thread(target=fails, name="failing").start()
    atexit.register(print, "exit handler")
    print("main ends")
    sys.exit(3)
    """)
    assert outcome.status == 3
    assert outcome.lines == [
        *("main ends", "worked 0", "worked 1", "worked 2", "thread ends"),
        "exit handler",
    ]
    assert outcome.err.startswith("Exception in thread failing:\nTraceback")
    assert outcome.err.count("ValueError: told by the excepthook") == 1 and "SystemExit" not in outcome.err


def test_locks_work_while_the_interpreter_is_taken_down() -> None:
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import logging, sys, threading

    class Late:
        def __init__(self):
            self.lock = threading.RLock()

        def __del__(self, out=sys.stdout):
            with self.lock:
                out.write("late\\n")

    handler = logging.StreamHandler()  # a weakref callback takes logging's lock
    threading.late = Late()
    """) == ["late"]


@pytest.mark.parametrize("module", ["sqlite3", "sqlite3.dbapi2"])
def test_the_original_of_a_name_that_a_hook_replaces_is_the_standard_one(module: str) -> None:
    assert prints(f"""
    import {module}
    from sqlite3 import Connection, connect
    import dhaga.monkey
    dhaga.monkey.patch()
    import sqlite3
    print(sqlite3.connect is connect, dhaga.monkey.original("{module}", "connect") is connect)
    print(sqlite3.Connection is Connection, dhaga.monkey.original("{module}", "Connection") is Connection)
    print(dhaga.monkey.original("{module}", "Row") is sqlite3.Row)
    """) == ["False True", "False True", "True"]
