"""Names that a patched class or object lacks, against the standard's, and standard classes that derive from ours.

A name that is missing on purpose is in ``MISSING``, and in the table of docs/limits-details.md.
"""

from __future__ import annotations

import functools
import json
import sysconfig
from pathlib import Path

import pytest

from tests.kit.scripts import ROOT, prints
from tests.kit.subclasses import subclasses_below

pytestmark = pytest.mark.once

MISSING = {
    "Thread": {
        *("_after_fork", "_handle", "_invoke_excepthook", "_os_thread_handle", "_reset_internal_locks", "_set_ident"),
        *("_set_os_name", "_set_tstate_lock", "_stop", "_wait_for_tstate_lock"),
    },
    "main_thread": {"_args", "_context", "_kwargs", "_target"},
    "Barrier": {"_cond", "_count", "_enter", "_exit", "_parties", "_release", "_state", "_wait"},
    "all_tasks_done": {"_acquire_restore", "_is_owned", "_at_fork_reinit", "_lock", "_release_save", "_waiters"},
}
"""By object: private names that work on the standard's state, for which ours has no counterpart."""

KINDS_OF_THREAD = ("Timer", "main_thread", "in_thread")
"""They lack what Thread lacks, and have what it has."""

EXTRA = {
    "Thread": {"_dhaga", "_is_stopped", "_tstate_lock", "cancel"},
    "main_thread": {"_is_alive"},
    "Lock": {
        *("_acquire_on_loop", "_acquire_restore", "_hand_over", "_hand_over_if_free", "_holder", "_holders"),
        *("_is_owned", "_reacquire", "_release_save", "_restore", "_unlock", "_wait_for_hand_over", "_waiters"),
    },
    "RLock": {
        *("_acquire_on_loop", "_count", "_hand_over", "_hand_over_if_free", "_holder", "_holders", "_reacquire"),
        *("_restore", "_unlock", "_wait_for_hand_over", "_waiters"),
    },
    "Condition": {
        *("_acquire_uncancelled", "_gates", "_open_first_gate", "_recursion_count", "_remove_gate", "_wait_at_gate"),
    },
    "not_empty": {"_serve", "_watchers"},
    "all_tasks_done": {"_joiners", "_queue"},
    "mutex": {"_free", "acquire_slowly"},
    "Event": {"_wake"},
    "Semaphore": {"_at_fork_reinit"},
    "SimpleQueue": {"_wait_for_item"},
    "socket": {
        *("check_turn", "connect_errno", "count_send", "fd_watcher", "mode_set", "note_drained", "note_limits"),
        *("park_within_timeout", "read_until_blocked", "read_when_ready", "recv_slow_path", "reset_blocking"),
        *("retry_with_backoff", "send_by_kernel", "send_rest", "sends_until_check", "short_read_means_empty"),
        *("stop_watching", "sync_timeout", "waits_for_all", "write_when_ready", "writer_to"),
    },
    "Popen": {"_killed"},
    "poll": {"masks", "poll_slow_path", "polling", "real"},
}
"""By object: names that the standard's lacks, other than those that end in an underscore.

Programs give attributes of their own to subclasses. A name that one may choose (``_items``, ``watchers``) ends in an
underscore here. Nothing is to be added that a program might choose.
"""

OF_OTHER_PYTHONS = {"_context", "_is_protocol", "is_shutdown", "locked", "shutdown"}

LIKE = {
    **dict.fromkeys(KINDS_OF_THREAD, "Thread"),
    **dict.fromkeys(("not_empty", "not_full"), "Condition"),
    "BoundedSemaphore": "Semaphore",
}

OBJECTS = """
    import json, queue, select, selectors, socket, subprocess, sys, threading
    def objects():
        tasks = queue.Queue()
        found = []
        thread = threading.Thread(target=lambda: found.append(threading.current_thread()))
        thread.start(); thread.join()
        return {
            **{kind: getattr(threading, kind)() for kind in
               ("Thread", "Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "local")},
            "Timer": threading.Timer(1, print), "Barrier": threading.Barrier(2), "main_thread": threading.main_thread(),
            "in_thread": found[0],
            **{kind: getattr(queue, kind)() for kind in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue")},
            "mutex": tasks.mutex, "not_empty": tasks.not_empty, "not_full": tasks.not_full,
            "all_tasks_done": tasks.all_tasks_done,
            "socket": socket.socket(), "Popen": subprocess.Popen(["true"]),
            "DefaultSelector": selectors.DefaultSelector(), "poll": select.poll(),
        }
    def names():
        made = objects()
        made["Popen"].wait()
        made["socket"].close(); made["DefaultSelector"].close()
        return {name: {*dir(each), *vars(type(each)), *getattr(each, "__dict__", ())} for name, each in made.items()}
    """


@functools.cache
def differences() -> dict[str, tuple[list[str], list[str]]]:
    """Return, by object, the names that ours lacks, and its further ones."""
    program = (
        OBJECTS
        + """
    standard = names()
    import dhaga.monkey
    dhaga.monkey.patch()
    ours = names()
    of = {name: (sorted(standard[name] - ours[name]), sorted(ours[name] - standard[name])) for name in standard}
    print(json.dumps(of))
    """
    )
    return json.loads(prints(program)[-1])


def test_a_patched_object_lacks_only_the_names_of_the_table() -> None:
    for name, (missing, _) in differences().items():
        known = MISSING.get(name, set()) | (MISSING["Thread"] if name in KINDS_OF_THREAD else set())
        hidden = {"__dict__", "__weakref__", "__slots__"}
        assert {*missing} - known - hidden == set(), name


def test_a_patched_object_has_only_the_further_names_of_the_table() -> None:
    for name, (_, extra) in differences().items():
        known = EXTRA.get(name, set()) | EXTRA.get(LIKE.get(name, name), set())
        known |= OF_OTHER_PYTHONS | (EXTRA["not_empty"] if name == "not_full" else set())
        assert {each for each in extra if not each.endswith("_")} - known == set(), name


def test_the_table_is_in_the_documentation() -> None:
    text = (ROOT / "docs/limits-details.md").read_text()
    for name in {*MISSING["Thread"], *MISSING["Barrier"]}:
        assert f"`{name}`" in text, name
    for kind in ("Thread", "Condition", "Event", "Popen", "socket"):
        for name in EXTRA[kind]:
            assert f"`{name}`" in text, name


def test_a_thread_has_no_class_attribute_that_tools_set_themselves() -> None:
    """memray puts descriptors of these names on the class, and asserts that there are none."""
    program = """
    import dhaga.monkey; dhaga.monkey.patch()
    import threading
    class Seen:
        def __init__(self, name): self.name = name
        def __get__(self, thread, kind): return thread.__dict__[self.name]
        def __set__(self, thread, value):
            thread.__dict__[self.name] = value
            if {"_name", "_ident"} <= thread.__dict__.keys() and thread._ident is not None:
                print(thread._name, thread._ident == thread.ident)
    assert not hasattr(threading.Thread, "_name") and not hasattr(threading.Thread, "_ident")
    threading.Thread._name, threading.Thread._ident = Seen("_name"), Seen("_ident")
    thread = threading.Thread(target=int, name="first")
    thread.start(); thread.join()
    """
    assert prints(program) == ["first True"]


# ---- standard subclasses

EXERCISED = {
    "asyncio/events.py _RunningLoop": "import asyncio as aio; aio.run(aio.sleep(0)); print(aio._get_running_loop())",
    "asyncio/events.py _Local": "import asyncio; asyncio.run(asyncio.sleep(0)); print(None)",
    "concurrent/futures/process.py _ExecutorManagerThread": """
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
    print(None if pool.submit(abs, -1).result() == 1 else 0)""",
    "logging/config.py Server": """
import logging.config
thread = logging.config.listen(0)
thread.start(); thread.ready.wait()
logging.config.stopListening(); thread.join(); print(None)""",
    "multiprocessing/dummy/__init__.py DummyProcess": """
from multiprocessing.dummy import Process
process = Process(target=print, args=(None,)); process.start(); process.join(); assert process.exitcode == 0""",
    "multiprocessing/synchronize.py Barrier": """
barrier = multiprocessing.get_context("fork").Barrier(3)
for _ in range(2):
    threads = [threading.Thread(target=barrier.wait) for _ in range(2)]
    for each in threads: each.start()
    barrier.wait(9)
    for each in threads: each.join()
process = multiprocessing.get_context("fork").Process(target=barrier.wait, args=(9,))
thread = threading.Thread(target=barrier.wait)
process.start(); thread.start(); barrier.wait(9); process.join(); thread.join()
print(None if (barrier.parties, barrier.n_waiting, barrier.broken, process.exitcode) == (3, 0, False, 0) else 0)""",
    "multiprocessing/synchronize.py Lock": "with multiprocessing.get_context('fork').Lock(): print(None)",
    "multiprocessing/synchronize.py RLock": "with multiprocessing.get_context('fork').RLock(): print(None)",
    "multiprocessing/synchronize.py Semaphore": "with multiprocessing.get_context('fork').Semaphore(): print(None)",
    "multiprocessing/util.py ForkAwareLocal": """
from multiprocessing.util import ForkAwareLocal
mine, seen = ForkAwareLocal(), []
mine.value = 1
def work():
    seen.append(hasattr(mine, "value")); mine.value = 2; time.sleep(0.001); seen.append(mine.value)
thread = threading.Thread(target=work); thread.start(); thread.join()
process = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(hasattr(mine, "value")))
process.start(); process.join()
print(None if (mine.value, seen, process.exitcode) == (1, [False, 2], 0) else (mine.value, seen, process.exitcode))""",
    "pydoc.py ServerThread": """
import pydoc
server = pydoc._start_server(lambda url, kind: "", "localhost", 0)
server.stop(); print(server.error)""",
}

NOT_EXERCISED = {
    "asyncio/__main__.py REPLThread": "an interactive program: by tests/aio",
    "asyncio/windows_utils.py Popen": "of Windows",
    "ssl.py SSLSocket": "contexts make ours: by tests/test_ssl.py",
}


def standard_subclasses() -> set[str]:
    """Return the classes of the standard library that derive from one that the patch replaces."""
    library = Path(sysconfig.get_path("stdlib"))
    without = frozenset({"test", "tests", "idlelib", "site-packages", "lib2to3", "turtledemo"})
    found = {f"{path} {each.name}" for path, each in subclasses_below(library, without)}
    # SemLock of multiprocessing is a class of its own there.
    return found | {f"multiprocessing/synchronize.py {kind}" for kind in ("Lock", "RLock", "Semaphore")}


def test_each_standard_subclass_of_a_replaced_class_is_exercised() -> None:
    found = standard_subclasses()
    assert found <= EXERCISED.keys() | NOT_EXERCISED.keys()
    assert len(found & EXERCISED.keys()) >= 10


@pytest.mark.parametrize("name", EXERCISED)
def test_a_standard_subclass_works_under_the_patch(name: str) -> None:
    begin = "import dhaga.monkey; dhaga.monkey.patch()\nimport multiprocessing, sys, threading, time\n"
    assert prints(f"{begin}{EXERCISED[name]}", "-W", "ignore::DeprecationWarning") == ["None"]
