"""gevent's ThreadPool, and its tools."""

from __future__ import annotations

import concurrent.futures
import io
import threading

import pytest

from dhaga._kernel import originals
from dhaga.compat import gevent
from dhaga.compat.eventlet import tpool
from dhaga.compat.gevent import util
from dhaga.compat.gevent.exceptions import InvalidThreadUseError
from dhaga.compat.gevent.threadpool import ThreadPool, ThreadPoolExecutor


def test_calls_are_made_in_os_threads_while_the_greenlets_wait() -> None:
    pool = ThreadPool(2)
    assert pool.apply(threading.get_native_id) != threading.get_native_id()
    assert pool.spawn(divmod, 7, 2).get() == (3, 1)
    assert pool.map(len, ["a", "ab"]) == [1, 2]
    assert gevent.get_hub().threadpool.apply(int, ("7",)) == 7
    pool.kill()
    gevent.get_hub().threadpool.kill()


def test_the_greenlets_are_shown() -> None:
    sleeper = gevent.spawn(gevent.sleep, 100)
    gevent.sleep(0)
    out = io.StringIO()
    util.print_run_info(file=out)
    assert sleeper.name in out.getvalue()
    sleeper.kill()
    assert isinstance(util.wrap_errors(ValueError, int)("x"), ValueError)


def test_calls_wait_for_a_maxsize_above_zero() -> None:
    pool = ThreadPool(0)
    call = pool.spawn(divmod, 7, 2)
    gevent.sleep(0.01)
    assert not call.ready() and (pool.size, pool.maxsize) == (0, 0)
    pool.maxsize = 1
    assert call.get() == (3, 1) and pool.size == 1
    pool.maxsize = 3
    pool.size = 2
    assert pool.size == 2
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match="from 0 to its maxsize, 3"):
            pool.size = wrong
    with pytest.raises(ValueError, match="negative"):
        pool.maxsize = -1
    with pytest.raises(TypeError):
        pool.maxsize = "1"
    pool.kill()


def test_calls_come_from_the_thread_that_has_made_the_pool() -> None:
    one, other = ThreadPool(1), ThreadPool(1)
    with pytest.raises(InvalidThreadUseError, match="in no other"):
        one.apply(other.spawn, (len, ""))
    one.kill()
    other.kill()


def test_calls_run_under_the_profile_function_of_threading() -> None:
    seen: list[str] = []
    pool = ThreadPool(1)
    pool.apply(int)  # the thread is there before
    threading.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_name))
    try:
        pool.apply(named_call)
    finally:
        threading.setprofile(None)
    pool.apply(another_call)
    pool.kill()
    assert "named_call" in seen and "another_call" not in seen


def named_call() -> None: ...


def another_call() -> None: ...


def test_futures_of_the_executor_are_waited_for() -> None:
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(divmod, 7, 2)
        assert gevent.wait([future], timeout=20) == [future] and future.result() == (3, 1)


def test_each_name_that_promises_an_os_thread_has_one() -> None:
    """Those of gevent and eventlet."""
    here = originals.get_ident()
    pool, executor = ThreadPool(1), ThreadPoolExecutor(1)
    idents = {
        "ThreadPool": pool.apply(originals.get_ident),
        "ThreadPool.spawn": pool.spawn(originals.get_ident).get(),
        "hub.threadpool": gevent.get_hub().threadpool.apply(originals.get_ident),
        "ThreadPoolExecutor": executor.submit(originals.get_ident).result(),
        "ThreadPoolExecutor.map": next(executor.map(lambda _: originals.get_ident(), [1])),
        "tpool": tpool.execute(originals.get_ident),
        "tpool.Proxy": tpool.Proxy(Asked()).ident(),
    }
    executor.shutdown()
    pool.kill()
    gevent.get_hub().threadpool.kill()
    tpool.killall()
    assert [name for name, ident in idents.items() if ident == here] == []


class Asked:
    def ident(self) -> int:
        return originals.get_ident()


def test_the_executor_is_the_standard_one_in_all_else() -> None:
    begun, go_on = originals.allocate_lock(), originals.allocate_lock()
    begun.acquire(), go_on.acquire()
    made: list[str] = []

    def hold() -> str:
        begun.release()
        go_on.acquire()
        return made[0]

    executor = ThreadPoolExecutor(1, initializer=made.append, initargs=("initialized",))
    assert isinstance(executor, concurrent.futures.Executor)
    running, failing, cancelled = (
        executor.submit(hold),
        executor.submit(divmod, 1, 0),
        executor.submit(made.append, "no"),
    )
    while not begun.acquire(False):
        gevent.sleep(0.001)
    assert running.running() and not running.cancel() and cancelled.cancel()
    go_on.release()
    assert running.result() == "initialized" and isinstance(failing.exception(), ZeroDivisionError)
    with pytest.raises(ValueError, match="from the pool"):
        executor.submit(executor.submit, int, "from the pool").result().result()
    executor.shutdown(cancel_futures=True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(divmod, 7, 2)
    assert made == ["initialized"]
