"""Guards exist, and are shared as they must be, on builds without the interpreter lock, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel.fast.accelerator import fast_paths
from dhaga._kernel.interpreter.guards import Guarded, TicketDeque, fence
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga._sync.event import Event
from dhaga._sync.lock import Lock, RLock
from dhaga._sync.semaphore import Semaphore
from dhaga._sync.simple_queue import SimpleQueue
from dhaga.queue import Queue
from dhaga.testing import virtual_clock
from tests.kit.parking import parked
from tests.kit.scripts import prints

TESTS = Path(__file__).parents[1]


def test_the_import_hook_is_loaded_where_there_is_no_interpreter_lock() -> None:
    assert prints("import sys, dhaga; print('dhaga._kernel.interpreter.atomic_lines' in sys.modules)") == [
        str(FREE_THREADED)
    ]


@pytest.mark.skipif(FREE_THREADED, reason="there is no interpreter lock")
def test_builds_with_the_lock_have_no_guards() -> None:
    assert TicketDeque is deque and Guarded.__slots__ == () and not hasattr(Lock(), "_guard")


@pytest.mark.skipif(not FREE_THREADED, reason="there is an interpreter lock")
def test_a_wait_queue_has_the_guard_of_its_owner() -> None:
    lock: Any = Lock()
    other: Any = Lock()
    assert lock._waiters._guard is lock._guard is not other._guard


GUARDS_ON = """
import sys
sys.abiflags, flags = "t", sys.abiflags
import dhaga._kernel.interpreter.requirements
sys.abiflags = flags
"""
GUARDED = (
    *("_sync", "_structured", "_iowait", "test_queue.py", "test_metrics.py"),
    *(
        f"compat/test_{name}.py"
        for name in ("greenlet_gevent", "links_gevent", "event_gevent", "pool_gevent", "semaphore")
    ),
)


@pytest.mark.process
@pytest.mark.skipif(sys.version_info < (3, 15), reason="Dhaga runs on no older build without the lock")
def test_what_has_atomic_lines_works_under_guards_also_where_a_lock_makes_them_idle(tmp_path: Path) -> None:
    """This finds a tagged line of an object that has no guard, without a free-threaded Python."""
    (tmp_path / "sitecustomize.py").write_text(GUARDS_ON)
    ordinary = "not slow and not once and not crowd and not process"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", ordinary]
        + [str(TESTS / each) for each in GUARDED],
        cwd=TESTS.parent,
        env={**os.environ, "DHAGA_PURE": "1", "PYTHONPATH": f"{tmp_path}{os.pathsep}{TESTS.parent}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fence_changes_nothing() -> None:
    for shared in ([1], deque([1]), WaitQueue(object, "x")):
        before = list(shared)
        fence(shared)
        assert list(shared) == before


# ---- the guards of the accelerator

guards_in_c = pytest.mark.skipif(
    not (FREE_THREADED and isinstance(fast_paths, ModuleType)), reason="there are no guards in C"
)


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


@guards_in_c
def test_functions_in_c_and_in_python_take_the_same_guard() -> None:
    assert isinstance(fast_paths, ModuleType)
    objects: list[Any] = [Lock(), RLock(), Event(), Semaphore(), SimpleQueue(), Queue().mutex]
    assert {type(each._guard) for each in objects} == {fast_paths.Guard}


@guards_in_c
@pytest.mark.parametrize("kind", [Lock, RLock, Semaphore])
def test_a_compiled_acquire_waits_while_another_thread_holds_the_guard(kind: Callable[[], Any]) -> None:
    primitive, order = kind(), []

    def acquire() -> None:
        started.release()
        primitive.acquire()
        order.append("acquired")
        primitive.release()

    started = threading.Semaphore(0)
    with primitive._guard:
        thread = in_thread(acquire)
        started.acquire()
        for _ in range(100):
            os.sched_yield()
        order.append("let go")
    thread.join()
    assert order == ["let go", "acquired"]


@guards_in_c
def test_a_guard_may_be_taken_again_by_its_thread_and_by_others_after_the_last_release() -> None:
    guard: Any = Lock()._guard  # type: ignore[attr-defined]
    order: list[str] = []

    def take() -> None:
        with guard:
            order.append("other")

    with guard:
        with guard:
            thread = in_thread(take)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


@guards_in_c
def test_a_guard_is_released_by_its_thread_only() -> None:
    guard: Any = Lock()._guard  # type: ignore[attr-defined]
    errors: list[str] = []

    def release() -> None:
        try:
            guard.__exit__(None, None, None)
        except RuntimeError as error:
            errors.append(str(error))

    with guard:
        in_thread(release).join()
    release()
    assert errors == ["this thread does not hold the guard"] * 2


@guards_in_c
def test_no_guard_is_held_by_a_parked_dhaga() -> None:
    taken: list[str] = []

    def take() -> None:
        for each in objects:
            with each._guard:
                taken.append(type(each).__name__)

    with virtual_clock():
        lock, event, semaphore, simple, queue = Lock(), Event(), Semaphore(0), SimpleQueue[int](), Queue[int]()
        waits = WaitQueue(lock, "test")
        objects: list[Any] = [lock, event, semaphore, simple, queue.mutex, queue._getters_, waits]
        with lock:
            calls: list[Callable[..., Any]] = [
                lock.acquire,
                event.wait,
                semaphore.acquire,
                simple.get,
                queue.get,
                lambda: waits.wait(False, int),
            ]
            waiters = [parked(call) for call in calls]
            assert all(each.reason for each in waiters)
            in_thread(take).join()
            for each in waiters:
                each.cancel()
                each.join()
    assert taken == ["Lock", "Event", "Semaphore", "SimpleQueue", "Mutex", "WaitQueue", "WaitQueue"]


FORK = """
import os, threading, warnings
warnings.simplefilter("ignore")  # of a fork beside threads
from dhaga._sync.lock import Lock

lock, held, over = Lock(), threading.Event(), threading.Event()

def hold():
    with lock._guard:
        held.set()
        over.wait()

def in_child():
    with lock:  # free, as its owner is gone
        pass
    with own._guard:  # still the caller's
        order = []
        thread = threading.Thread(target=lambda: (own.acquire(), order.append("other")))
        thread.start()
        for _ in range(100):
            os.sched_yield()
        order.append("first")
    own._guard.__exit__(None, None, None)  # of the acquisition before the fork
    thread.join()
    return order == ["first", "other"]

thread = threading.Thread(target=hold)
thread.start()
held.wait()
own = Lock()
own._guard.__enter__()
pid = os.fork()
if pid == 0:
    os._exit(0 if in_child() else 1)
own._guard.__exit__(None, None, None)
over.set()
thread.join()
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(not FREE_THREADED, reason="there are no guards")
@pytest.mark.parametrize("pure", ["", "1"])
def test_in_a_forked_child_the_guards_of_other_threads_are_free(pure: str) -> None:
    assert prints(FORK, DHAGA_PURE=pure) == ["0"]
