"""The patch: all or nothing, once, and taken back; every name of the table is there, and none is missing."""

from __future__ import annotations

from pkgutil import resolve_name

import pytest

from dhaga import monkey
from tests.scripts import prints, run

DIFFERENT_BUT_LEFT = {
    ("io", "TextIOWrapper"): "made by our open() alone, over files that park",
    ("os", "fdopen"): "it calls io.open, which is replaced",
    ("ssl", "SSLContext"): "its sslsocket_class is replaced: the methods of the class use super()",
    ("ssl", "SSLSocket"): "contexts make ours by sslsocket_class; users name the class for isinstance",
    ("ssl", "create_connection"): "it is socket's, and follows that",
    ("ssl", "socket"): "it is socket's, and follows that",
    ("ssl", "create_default_context"): "it makes standard contexts, whose sockets are ours",
    ("threading", "excepthook"): "a program sets the standard one, which is called",
    **{
        ("subprocess", name): "it calls Popen, which is replaced"
        for name in ("call", "check_call", "check_output", "getoutput", "getstatusoutput", "run")
    },
}
"""Public names of ours that are other than the standard's, and why the patch can do without them."""

ROWS = [row for row in monkey.TABLE if row.when]
PATCHED = {(row.module, name) for row in ROWS for name in row.names}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.module}.{row.names[0]}")
def test_every_name_of_the_table_is_there_on_both_sides(row: monkey.Row) -> None:
    standard, ours = resolve_name(row.module), resolve_name(row.ours)
    assert [name for name in row.names if not (hasattr(standard, name) and hasattr(ours, name))] == []


@pytest.mark.parametrize(("module", "ours"), sorted({(row.module, row.ours) for row in ROWS}))
def test_every_public_name_that_differs_is_in_the_table(module: str, ours: str) -> None:
    standard, swapped = resolve_name(module), resolve_name(ours)
    differ = {
        (module, name)
        for name in getattr(swapped, "__all__", ())
        if hasattr(standard, name) and getattr(standard, name) is not getattr(swapped, name)
    }
    assert differ - PATCHED - set(DIFFERENT_BUT_LEFT) == set()


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


def test_a_second_patch_does_nothing_and_unpatch_restores_all() -> None:
    assert prints(
        NAMESPACES
        + """
    import dhaga, dhaga.monkey, concurrent.futures.process, multiprocessing.dummy, logging.handlers, socketserver
    from threading import Lock, Thread
    monkey = dhaga.monkey
    monkey.replacements()  # imports all
    bases = multiprocessing.dummy.DummyProcess.__bases__
    methods = dict(vars(Thread))
    before = namespaces()
    print(monkey.is_patched())
    monkey.patch()
    made = len(monkey.changes.made)
    patched = namespaces()
    monkey.patch()
    print(monkey.is_patched(), len(monkey.changes.made) == made, namespaces() == patched)
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
    import dhaga.monkey as monkey, dhaga.adoption
    monkey.replacements()
    before = namespaces()

    def fails():
        raise MemoryError("in the middle")

    adopt, monkey.adopt = monkey.adopt, fails
    try:
        monkey.patch()
    except MemoryError as error:
        print(error, monkey.is_patched())
    after = namespaces()
    print([name for name in before if after[name] is not before[name]])
    monkey.adopt = adopt
    monkey.patch()
    print(monkey.is_patched())
    """
    ) == ["in the middle False", "[]", "True"]


def test_what_modules_have_bound_before_follows() -> None:
    assert prints("""
    import functools, multiprocessing.dummy, reprlib, subprocess, sys, tempfile, types, _thread
    from threading import Lock, Thread, current_thread
    from time import sleep as nap
    import dhaga.monkey, dhaga.threading, dhaga.time

    other = sys.modules["other"] = types.ModuleType("other")
    other.__file__ = "/somewhere/other.py"
    other.Held = Thread
    dhaga.monkey.patch()
    original = dhaga.monkey.original("_thread", "get_ident")
    print(Thread is other.Held is dhaga.threading.Thread, Lock is dhaga.threading.Lock, nap is dhaga.time.sleep)
    print(functools.RLock, reprlib.get_ident is not original, tempfile._allocate_lock is Lock)
    print(issubclass(multiprocessing.dummy.DummyProcess, Thread), subprocess._PopenSelector.__module__)
    dhaga.monkey.unpatch()
    print(Thread.__module__, other.Held.__module__, reprlib.get_ident is original)
    """) == [
        "True True True",
        "<class 'dhaga.locks.RLock'> True True",
        "True dhaga.selectors",
        "threading threading True",
    ]


def test_the_originals_go_on_as_before() -> None:
    """A native thread, which a dhaga of a patched program starts and waits for."""
    assert prints("""
    import dhaga.monkey
    dhaga.monkey.patch()
    import dhaga, _thread, threading, time
    Thread, Event = (dhaga.monkey.original("threading", name) for name in ("Thread", "Event"))
    print(Thread.__module__, Event.__module__, dhaga.monkey.original("time", "sleep") is not time.sleep)

    def native(who):
        dhaga.monkey.original("time", "sleep")(0.01)
        who.append(dhaga.monkey.original("_thread", "get_ident")())
        who.append(threading.current_thread().name)

    def start():
        who = []
        thread = Thread(target=native, args=(who,), name="native")
        thread.start()
        dhaga.offload(thread.join)
        return who[0] != main, who[1], type(thread._started) is Event

    main = dhaga.monkey.original("_thread", "get_ident")()
    print(dhaga.spawn(start).result())
    current = dhaga.kernel.originals.current_thread
    print(type(current()).__name__, dhaga.spawn(current).result().name)
    dhaga.monkey.unpatch()
    print(dhaga.monkey.original("threading", "Thread") is threading.Thread is Thread)
    """) == ["threading threading True", "(True, 'native', True)", "_MainThread MainThread", "True"]


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


# ---- the end of a patched program


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

    executor = concurrent.futures.ThreadPoolExecutor(2)
    for n in range(3):
        executor.submit(work, n).add_done_callback(lambda future: print("worked", future.result()))
    threading.Thread(target=daemon, daemon=True).start()
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread ends"))).start()
    threading.Thread(target=sys.exit, args=(5,)).start()
    threading.Thread(target=fails, name="failing").start()
    atexit.register(print, "exit handler")
    print("main ends")
    sys.exit(3)
    """)
    assert outcome.status == 3
    assert outcome.lines == [
        *("main ends", "worked 0", "worked 1", "worked 2", "thread ends", "daemon ends"),
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


def test_standard_modules_that_are_imported_meanwhile_are_restored_too() -> None:
    assert prints("""
    import dhaga.monkey, sys, threading
    Thread = threading.Thread
    assert "multiprocessing.dummy" not in sys.modules
    dhaga.monkey.patch()
    import multiprocessing.dummy as dummy, concurrent.futures.process as process
    print(dummy.Lock.__module__, dummy.DummyProcess.__base__.__module__)
    dhaga.monkey.unpatch()
    print(dummy.Lock is threading.Lock, dummy.Event is threading.Event, dummy.DummyProcess.__base__ is threading.Thread)
    print(process._ExecutorManagerThread.__base__ is threading.Thread)
    pool = dummy.Pool(2)
    print(pool.map(abs, [-1, -2]))
    pool.close(), pool.join()
    """) == ["dhaga.locks dhaga.threading", "True True True", "True", "[1, 2]"]
