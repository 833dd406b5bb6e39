"""gevent's ThreadPool, and its tools."""

from __future__ import annotations

import io
import threading

from dhaga.compat import gevent
from dhaga.compat.gevent import util
from dhaga.compat.gevent.threadpool import ThreadPool


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
