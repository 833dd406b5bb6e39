"""SQLAlchemy's QueuePool over PoolQueue: the queue by itself, and pools of connections to SQLite and to PostgreSQL."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.kit.crowd import Crowd, Worker
from tests.kit.parking import parked, victim
from tests.kit.scripts import PATIENCE, prints
from tests.kit.strikes import Tracer
from tests.scenarios.test_asyncio_libraries import address_of

sqlalchemy = pytest.importorskip("sqlalchemy")
pool_classes = pytest.importorskip("sqlalchemy.pool")
standard = pytest.importorskip("sqlalchemy.util.queue")

from dhaga.integrations import sqlalchemy as integration  # noqa: E402
from dhaga.integrations.sqlalchemy import PoolQueue  # noqa: E402


@pytest.fixture
def installed() -> Iterator[None]:
    integration.install()
    yield
    integration.uninstall()


class Connection:
    """A driver's connection that does nothing."""

    def rollback(self) -> None: ...

    close = commit = cursor = rollback


def filled(size: int, **options: Any) -> Any:
    """Return a pool in which all connections have been made and are idle."""
    pool = pool_classes.QueuePool(Connection, pool_size=size, max_overflow=0, **options)
    for connection in [pool.connect() for _ in range(size)]:
        connection.close()
    assert type(pool._pool) is PoolQueue
    return pool


# ---- the queue


@pytest.mark.parametrize(("use_lifo", "order"), [(False, "abc"), (True, "cba")])
def test_idle_connections_leave_in_the_order_that_the_pool_has_chosen(use_lifo: bool, order: str) -> None:
    queue = PoolQueue(3, use_lifo)
    for item in "abc":
        queue.put(item, False)
    assert (queue.qsize(), queue.full(), queue.empty(), list(queue.queue)) == (3, True, False, ["a", "b", "c"])
    assert [queue.get(False) for _ in "abc"] == list(order)
    assert (queue.qsize(), queue.full(), queue.empty()) == (0, False, True)


@pytest.mark.parametrize("use_lifo", [False, True])
def test_a_returned_connection_goes_to_the_caller_that_has_waited_longest(use_lifo: bool) -> None:
    with virtual_clock():
        queue = PoolQueue(1, use_lifo)
        served: list[tuple[str, str]] = []
        getters = [parked(lambda name=name: served.append((name, queue.get()))) for name in "123"]
        assert repr(queue) == "<PoolQueue of 0, 3 parked in get>"
        # More than the queue could store, and before any getter runs.
        for item in "abc":
            queue.put(item, False)
        with pytest.raises(standard.Empty):
            queue.get(False)
        for getter in getters:
            getter.join()
        assert served == [("1", "a"), ("2", "b"), ("3", "c")]


def test_a_full_queue_refuses_a_connection_until_one_is_taken() -> None:
    with virtual_clock() as clock:
        queue = PoolQueue(1)
        queue.put("a")
        for block, timeout in ((False, None), (False, 5), (True, 0), (True, 0.5)):
            with pytest.raises(standard.Full):
                queue.put("b", block, timeout)
        with pytest.raises(standard.Full):
            queue.put_nowait("b")
        putter = parked(queue.put, "b")
        assert queue.get_nowait() == "a"
        putter.join()
        assert queue.get() == "b"
        assert clock() == 0.5


def test_an_unbounded_queue_is_never_full() -> None:
    queue = PoolQueue(0)
    for number in range(100):
        queue.put(number, False)
    assert not queue.full() and queue.qsize() == 100


def test_an_empty_queue_is_waited_for_as_long_as_the_timeout_says() -> None:
    with virtual_clock() as clock:
        queue = PoolQueue(1)
        for block, timeout, waited in ((False, None, 0), (False, -1, 0), (True, 0, 0), (True, 0.5, 0.5)):
            begun = clock()
            with pytest.raises(standard.Empty):
                queue.get(block, timeout)
            assert clock() - begun == waited
        for call in (queue.get, lambda block, timeout: queue.put("a", block, timeout)):
            with pytest.raises(ValueError, match="'timeout' must be a"):
                call(True, -1)
        dhaga.spawn(lambda: (dhaga.sleep(100), queue.put("a", False)))
        assert queue.get() == "a" and clock() == 100.5


def test_the_queue_is_not_copied() -> None:
    for copied in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'PoolQueue' object"):
            copied(PoolQueue(1))


def test_a_cancel_or_a_timeout_at_any_park_loses_no_connection() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        queue = PoolQueue(1)
        queue.put("a", False)

        def use(timeout: float | None) -> None:
            with contextlib.suppress(standard.Empty):
                connection = queue.get(True, timeout)
                try:
                    dhaga.sleep(1)
                finally:
                    queue.put(connection, False)

        def check() -> None:
            assert (queue.queue, queue._getters.parked()) == (deque(["a"]), 0)

        dhaga.spawn(use, None)
        second = victim(use, 2)
        for timeout in (1, None):
            dhaga.spawn(use, timeout)
        return second, check

    assert cancel_at_every_park(scenario) > 1


def struck_at(nth: int, handler: Callable[[], object], call: Callable[[], object]) -> tuple[object, str]:
    """Call something, and a handler at the nth place of Dhaga's code where a finalizer or another OS thread may run.

    Returns: the call's result, and the place; empty if there are fewer.
    """
    tracer = Tracer(nth, ("dhaga",), lambda _: handler())
    sys.settrace(tracer.on_call)
    try:
        return call(), tracer.place
    finally:
        sys.settrace(None)


@pytest.fixture(autouse=True, scope="module")
def opcodes_are_traced() -> None:
    """Trace once, because CPython 3.12 reports no opcodes to the first trace function that asks for them."""
    struck_at(0, list, lambda: PoolQueue(1).put("first"))


def drained(queue: PoolQueue) -> list[Any]:
    """Empty a queue, and check that it takes as many as before. Returns: what was in it."""
    left = [queue.get(False) for _ in range(queue.qsize())]
    for _ in range(queue.maxsize):
        queue.put("one more", False)
    with pytest.raises(standard.Full):
        queue.put("too many", False)
    assert not queue._getters.parked()
    return left


def get_within_a_second(queue: PoolQueue) -> Any:
    with contextlib.suppress(standard.Empty):
        return queue.get(True, 1)


@pytest.mark.skipif(FREE_THREADED, reason="a finalizer would strike within a guard")
@pytest.mark.parametrize("use_lifo", [False, True])
def test_a_finalizer_returns_a_connection_in_the_middle_of_any_call(use_lifo: bool) -> None:
    """A collection that strikes SQLAlchemy's own queue finds its mutex re-entrant."""
    calls: dict[Callable[[PoolQueue], Any], list[str]] = {
        lambda queue: (queue.put("first", False), queue.get())[1]: ["first", "returned"],
        get_within_a_second: ["returned"],
    }
    for call, expected in calls.items():
        place = ""
        for nth in range(1, 1000):
            with virtual_clock() as clock:
                queue, returned = PoolQueue(2, use_lifo), list[float]()

                def give_back() -> None:
                    queue.put("returned", False)  # noqa: B023
                    returned.append(clock())  # noqa: B023

                got, place = struck_at(nth, give_back, lambda: call(queue))  # noqa: B023
                if not place:
                    break
                # At once, unless it came when the second was over.
                assert clock() == returned[0], place
                assert sorted(filter(None, [got, *drained(queue)])) == expected, place
        assert nth > 5 and not place


@pytest.mark.skipif(FREE_THREADED, reason="a thread would be stopped within a guard")
@pytest.mark.parametrize("use_lifo", [False, True])
def test_a_getter_in_another_os_thread_misses_no_connection_whenever_it_comes(use_lifo: bool) -> None:
    place = ""
    for nth in range(1, 1000):
        queue, got = PoolQueue(1, use_lifo), list[str]()
        getter = threading.Thread(target=lambda: got.append(queue.get(True, 60)))  # noqa: B023

        def come() -> None:
            getter.start()  # noqa: B023
            while not queue._getters.parked() and getter.is_alive():  # noqa: B023
                time.sleep(0.0001)

        place = struck_at(nth, come, lambda: queue.put("first", False))[1]  # noqa: B023
        if not place:
            break
        getter.join(PATIENCE)
        assert (got, drained(queue)) == (["first"], []), place
    assert nth > 3 and not place


# ---- pools


@pytest.mark.parametrize("use_lifo", [False, True])
def test_each_connection_has_one_user_at_a_time_in_os_threads_with_and_without_a_scheduler(
    crowd: Crowd, installed: None, use_lifo: bool
) -> None:
    pool = filled(7, use_lifo=use_lifo, timeout=60)
    users: Counter[int] = Counter()

    def work(me: Worker) -> None:
        for one in me.tries(2):
            with one:
                queue = pool._pool
                timeout = me.timeout()
                try:
                    record = queue.get(timeout != 0, timeout)
                except standard.Empty:
                    continue
                users[id(record)] += 1
                assert users[id(record)] == 1
                try:
                    me.pause()
                finally:
                    users[id(record)] -= 1
                    queue.put(record, False)

    crowd.run(work)
    queue = pool._pool
    assert (pool.checkedin(), pool.checkedout(), queue._getters.parked()) == (7, 0, 0)
    assert len({id(queue.get(False)) for _ in range(7)}) == 7


def test_a_pool_that_is_exhausted_raises_sqlalchemys_error_in_time(installed: None) -> None:
    with virtual_clock() as clock:
        pool = filled(1, timeout=3)
        held = pool.connect()
        with pytest.raises(sqlalchemy.exc.TimeoutError, match="QueuePool limit of size 1 overflow 0 reached"):
            pool.connect()
        assert clock() == 3
        held.close()
        pool.connect().close()
        assert (pool.checkedin(), pool.checkedout()) == (1, 0)


def test_overflowing_connections_are_closed_once_nobody_waits_for_them(installed: None) -> None:
    with virtual_clock():
        pool = pool_classes.QueuePool(Connection, pool_size=1, max_overflow=2, timeout=5)
        held = [pool.connect() for _ in range(3)]
        waiting = [parked(pool.connect) for _ in range(3)]
        for connection in held:
            connection.close()
        held = [each.result() for each in waiting]
        assert (pool.checkedout(), pool.overflow(), pool.checkedin()) == (3, 2, 0)
        for connection in held:
            connection.close()
        assert (pool.checkedout(), pool.overflow(), pool.checkedin()) == (0, 0, 1)


def test_a_recreated_pool_has_the_same_size_and_order(installed: None) -> None:
    pool = filled(3, use_lifo=True, timeout=7)
    again = pool.recreate()
    pool.dispose()
    assert (again.size(), again._pool.use_lifo, type(again._pool), again.timeout()) == (3, True, PoolQueue, 7)
    assert (pool.checkedin(), pool.checkedout()) == (0, 0)


def test_a_class_with_a_queue_of_its_own_keeps_it(installed: None) -> None:
    class Own(standard.Queue):  # type: ignore[name-defined]
        pass

    class OwnPool(pool_classes.QueuePool):  # type: ignore[name-defined]
        _queue_class = Own

    assert type(OwnPool(Connection)._pool) is Own
    assert pool_classes.AsyncAdaptedQueuePool._queue_class is standard.AsyncAdaptedQueue


def test_a_replacement_by_the_program_stays(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(standard.Queue):  # type: ignore[name-defined]
        pass

    monkeypatch.setattr(pool_classes.QueuePool, "_queue_class", Own)
    integration.uninstall()
    integration.install()
    assert pool_classes.QueuePool._queue_class is Own


def test_the_patch_installs_it_before_or_after_the_import_and_removes_it() -> None:
    assert prints("""
from dhaga import monkey

def kind():
    from sqlalchemy.pool import QueuePool
    return QueuePool(lambda: None)._pool

monkey.patch()
ours = kind()
print(type(ours).__module__)
monkey.unpatch()
print(type(kind()).__module__)
ours.put("connection", False)
print(ours.get())
monkey.patch()
print(type(kind()).__module__)
""") == ["dhaga.integrations.sqlalchemy", "sqlalchemy.util.queue", "connection", "dhaga.integrations.sqlalchemy"]


# ---- databases


def test_threads_write_to_sqlite_over_few_connections(tmp_path: Path) -> None:
    assert prints(f"""
import dhaga.monkey
dhaga.monkey.patch()
import sqlalchemy, threading
from sqlalchemy.pool import QueuePool

engine = sqlalchemy.create_engine("sqlite:///{tmp_path}/file.db", poolclass=QueuePool, pool_size=2, max_overflow=1)
with engine.begin() as connection:
    connection.execute(sqlalchemy.text("create table t (x)"))

def write(n):
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("insert into t values (:n)"), {{"n": n}})

threads = [threading.Thread(target=write, args=(n,)) for n in range(30)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with engine.connect() as connection:
    print(sorted(connection.execute(sqlalchemy.text("select x from t")).scalars()) == list(range(30)))
print(type(engine.pool._pool).__name__, engine.pool.checkedout())
""") == ["True", "PoolQueue 0"]


POSTGRES = """
import dhaga.monkey
dhaga.monkey.patch()
import os, sys, threading
import dhaga, sqlalchemy

url = sqlalchemy.engine.make_url(os.environ["DHAGA_POSTGRES"]).set(drivername="postgresql+psycopg2")
engine = sqlalchemy.create_engine(url, pool_size=3, max_overflow=0, pool_timeout=30)

def ask(n):
    with engine.connect() as connection:
        return connection.execute(sqlalchemy.text(f"select {n}")).scalar_one()

def ask_all(count):
    dhagas = [dhaga.spawn(ask, n) for n in range(count)]
    return [each.result() for each in dhagas] == list(range(count))
"""

FULL_POOL = f"""{POSTGRES}
held = [engine.connect() for _ in range(3)]
waiters = [dhaga.spawn(ask, n) for n in range(9)]
while engine.pool._pool._getters.parked() < 9:
    dhaga.sleep(0.001)
"""


@pytest.fixture
def postgres() -> str:
    pytest.importorskip("psycopg2")
    return address_of("DHAGA_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")


def test_a_cancelled_waiter_and_native_threads_leave_the_pool_whole(postgres: str) -> None:
    program = f"""{FULL_POOL}
for each in waiters[::3]:
    each.cancel()
for each in held: each.close()
print([each.result() for i, each in enumerate(waiters) if i % 3])

OSThread = dhaga.monkey.original("threading", "Thread")
borrowed = engine.connect()
threads = [OSThread(target=borrowed.close), *(OSThread(target=ask, args=(n,)) for n in range(8))]
for each in threads: each.start()
print(ask_all(20))
for each in threads: each.join()
print(type(engine.pool._pool).__name__, engine.pool.checkedin(), engine.pool.checkedout())
"""
    assert prints(program, DHAGA_POSTGRES=postgres) == ["[1, 2, 4, 5, 7, 8]", "True", "PoolQueue 3 0"]


def test_a_forked_child_makes_its_own_connections(postgres: str) -> None:
    program = f"""{FULL_POOL}
pid = os.fork()
if pid == 0:
    # No getter of the parent is here: what the child returns to this pool is there for the child.
    engine.pool._pool.put("of the child", False)
    kept = engine.pool._pool.get(False) == "of the child"
    engine.dispose(close=False)
    os._exit(7 if kept and ask_all(20) and engine.pool.checkedout() == 0 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for each in held: each.close()
print([each.result() for each in waiters] == list(range(9)), ask_all(20), engine.pool.checkedout())
"""
    assert prints(program, DHAGA_POSTGRES=postgres) == ["7", "True True 0"]
