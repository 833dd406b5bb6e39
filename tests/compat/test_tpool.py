"""``eventlet.tpool``: calls and objects in OS threads."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import debug, tpool


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    yield
    tpool.killall()
    tpool.set_num_threads(20)


def test_a_call_in_a_thread_does_not_hold_up_the_others() -> None:
    gate = threading.Event()
    call = eventlet.spawn(tpool.execute, gate.wait, 30)
    eventlet.spawn(gate.set)
    assert call.wait() is True
    here = threading.get_ident()
    assert tpool.execute(threading.get_ident) != here
    assert tpool.execute(tpool.execute, threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        tpool.execute(divmod, 1, 0)


def test_without_threads_the_caller_makes_the_call() -> None:
    tpool.killall()
    tpool.set_num_threads(0)
    assert tpool.execute(threading.get_ident) == threading.get_ident()


@pytest.mark.logs
def test_an_error_in_a_thread_may_be_reported_too(caplog: pytest.LogCaptureFixture) -> None:
    debug.tpool_exceptions(True)
    try:
        with pytest.raises(ValueError, match="seen twice"):
            tpool.execute(int, "seen twice")
    finally:
        debug.tpool_exceptions(False)
    assert "seen twice" in caplog.text


class Thing:
    name = "a thing"

    def __init__(self) -> None:
        self.items = {"key": [1]}
        self.part = [3, 4]

    def where(self) -> int:
        return threading.get_ident()

    def child(self) -> Thing:
        return Thing()

    def __getitem__(self, key: str) -> list[int]:
        return self.items[key]

    def __setitem__(self, key: str, value: list[int]) -> None:
        self.items[key] = value

    def __call__(self, word: str) -> str:
        return f"called {word}"

    def __enter__(self) -> str:
        return "entered"

    def __exit__(self, *details: object) -> bool:
        return True

    def __len__(self) -> int:
        return 0


def test_a_proxy_calls_in_threads_and_wraps_what_it_is_told_to() -> None:
    thing = Thing()
    proxy = tpool.Proxy(thing, autowrap=(Thing,), autowrap_names=("part",))
    assert proxy.name == "a thing" and proxy.where() != threading.get_ident()
    assert proxy.where(nonblocking=True) == threading.get_ident()
    assert isinstance(proxy.child(), tpool.Proxy) and isinstance(proxy.part, tpool.Proxy)
    proxy["more"] = [2]
    assert (proxy["key"], proxy["more"], proxy("it")) == ([1], [2], "called it")
    with proxy as entered:
        raise KeyError(entered)
    assert proxy == thing and hash(proxy) == hash(thing) and repr(proxy) == repr(thing) and str(proxy) == str(thing)
    assert len(proxy) == 0 and not proxy
    assert [*tpool.Proxy([1, 2])] == [1, 2] and copy.copy(tpool.Proxy(Copied())) == "copied"
    assert copy.deepcopy(tpool.Proxy(Copied())) == "copied deeply"


class Copied:
    def __copy__(self) -> str:
        return "copied"

    def __deepcopy__(self, memo: object) -> str:
        return "copied deeply"


def test_a_generator_is_gone_through_by_its_proxy() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)

    proxy = tpool.Proxy(numbers, autowrap_names=("__call__",))
    assert [*proxy()] == [0, 1, 2]
    tpool.set_num_threads(5)
    assert tpool._nthreads == 5
    tpool.set_num_threads(20)
    tpool.killall()
