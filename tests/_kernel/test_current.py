"""The current waiter: which callers may park, and the errors that the others get."""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading

import pytest

import dhaga
from dhaga.testing import virtual_clock
from dhaga.threading import Lock


def test_in_a_notebook_the_error_names_the_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wrong() -> None:
        dhaga.sleep(1)

    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    with pytest.raises(dhaga.ParkError) as error:
        asyncio.run(wrong())
    assert str(error.value).endswith("dhaga.spawn(fn, ...)")
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with pytest.raises(dhaga.ParkError) as error:
        asyncio.run(wrong())
    assert str(error.value).endswith("\nin a notebook run %load_ext dhaga, and make the call in the next cell")


def test_a_foreign_greenlet_cannot_park_among_dhagas() -> None:
    import greenlet

    def foreign() -> str:
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.spawn"):
            dhaga.sleep(1)
        return "refused"

    with virtual_clock():
        dhaga.sleep(0)
        assert greenlet.greenlet(foreign).switch() == "refused"
        assert dhaga.spawn(lambda: greenlet.greenlet(foreign).switch()).result() == "refused"


def test_a_bare_thread_that_waits_is_no_thread_of_threadings() -> None:
    """CPython 3.11 and 3.12 would keep a dummy Thread, which ``threading.enumerate()`` shows after the thread's end."""
    lock, ended = Lock(), _thread.allocate_lock()
    lock.acquire()
    ended.acquire()
    before = threading.enumerate()

    def wait() -> None:
        lock.acquire(timeout=0.01)
        ended.release()

    _thread.start_new_thread(wait, ())
    assert ended.acquire(timeout=30)
    assert set(threading.enumerate()) <= {*before}
