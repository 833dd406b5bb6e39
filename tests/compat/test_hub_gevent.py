"""gevent's hub, as far as programs use it, and the functions beside it."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any

import greenlet
import pytest

import dhaga
from dhaga._kernel.process.current_scheduler import current_scheduler
from dhaga.compat import gevent
from dhaga.compat.gevent import _interfaces
from dhaga.compat.gevent._loop import hubs
from dhaga.compat.gevent.event import Event
from dhaga.compat.gevent.exceptions import ConcurrentObjectUseError, LoopExit
from dhaga.compat.gevent.hub import UNSET, Hub, Waiter
from dhaga.compat.gevent.queue import Queue
from dhaga.compat.gevent.threadpool import ThreadPool


def test_there_is_one_hub_for_a_thread() -> None:
    assert gevent.get_hub() is gevent.get_hub()
    assert gevent.get_hub().loop is gevent.spawn(lambda: getattr(gevent.getcurrent(), "loop")).get()  # noqa: B009
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        gevent.get_hub().switch()


def test_a_program_may_set_the_stream_of_errors_or_take_it_away(capfd: pytest.CaptureFixture[str]) -> None:
    hub = gevent.get_hub()
    assert hub.exception_stream is sys.stderr
    try:
        hub.exception_stream = stream = io.StringIO()
        failed = gevent.spawn(int, "x")
        failed.join()
        hub.loop.run_callback(int, "y")
        gevent.sleep(0)
        text = stream.getvalue()
        assert f"{failed!r} failed with ValueError" in text and text.count("ValueError: invalid") == 2
        hub.exception_stream = None
        gevent.spawn(int, "z").join()
    finally:
        hub._stream = UNSET
    assert stream.getvalue() == text and capfd.readouterr() == ("", "")


def test_a_waiter_passes_a_value_or_an_error(clock: Any) -> None:
    waiter = Waiter()
    gevent.spawn(waiter.switch, 5)
    assert waiter.get() == 5 and waiter.get() == 5
    waiter.clear()
    gevent.spawn(waiter.switch_args, 5, 6)
    assert waiter.get() == (5, 6)
    waiter.clear()
    gevent.spawn(waiter.throw, KeyError)
    with pytest.raises(KeyError):
        waiter.get()
    busy = Waiter()
    first = gevent.spawn(busy.get)
    gevent.sleep(0)
    with pytest.raises(ConcurrentObjectUseError):
        busy.get()
    busy.switch(1)
    assert first.get() == 1


def test_a_wait_that_cannot_end_is_a_loop_exit(clock: Any) -> None:
    with pytest.raises(LoopExit):
        Event().wait()


def test_idle_lets_all_others_run(clock: Any) -> None:
    seen: list[int] = []
    for number in range(3):
        gevent.spawn(seen.append, number)
    gevent.idle()
    assert seen == [0, 1, 2]


def test_a_signal_calls_its_handler_in_a_greenlet() -> None:
    seen = Event()
    watching = gevent.signal_handler(signal.SIGUSR1, seen.set)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen.wait(20)
    finally:
        watching.cancel()


def fail(error: BaseException) -> None:
    raise error


def test_errors_go_to_a_handle_error_that_was_assigned(clock: Any) -> None:
    reported: list[Any] = []
    hub: Any = gevent.get_hub()
    hub.handle_error = lambda *error: reported.append(error[:3])
    errors = [ValueError(number) for number in range(3)]
    try:
        greenlet = gevent.spawn(fail, errors[0])
        callback = hub.loop.run_callback(fail, errors[1])
        timer = hub.loop.timer(1)
        timer.start(fail, errors[2])
        killed = gevent.spawn(gevent.sleep, 9)
        gevent.sleep(2)
        killed.kill()  # is none
    finally:
        del hub.handle_error
    assert reported == [
        (context, ValueError, error) for context, error in zip((greenlet, callback, timer), errors, strict=True)
    ]


def test_a_method_set_on_the_class_gets_the_errors_of_a_thread_without_a_hub(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(Hub, "handle_error", lambda _, *error: reported.append(error[1]))
    hubs.pop(current_scheduler(), None)
    gevent.spawn(fail, KeyError()).join()
    assert reported == [KeyError]


class Fatal(Exception):
    pass


def test_a_system_error_is_raised_in_the_main_code(clock: Any, caplog: pytest.LogCaptureFixture) -> None:
    hub: Any = gevent.get_hub()
    hub.SYSTEM_ERROR = (Fatal,)
    try:
        gevent.spawn(fail, Fatal("stop"))
        with pytest.raises(Fatal, match="stop"):
            gevent.sleep(5)
    finally:
        del hub.SYSTEM_ERROR
    assert "ended with an uncaught error" in caplog.text
    caplog.clear()
    gevent.spawn(hub.parent.throw, KeyError, "thrown")
    with pytest.raises(KeyError):
        gevent.sleep(5)


def test_callbacks_run_within_one_sleep_in_the_order_of_all_that_is_due(clock: Any) -> None:
    seen: list[str] = []
    gevent.spawn(seen.append, "greenlet")
    gevent.get_hub().loop.run_callback(seen.append, "callback")
    gevent.spawn(seen.append, "last")
    gevent.sleep(0)
    assert seen == ["greenlet", "callback", "last"]


def test_a_thread_that_has_asked_for_no_hub_has_none() -> None:
    from dhaga.compat.gevent.hub import get_hub_if_exists

    gevent.get_hub()
    assert get_hub_if_exists() is gevent.get_hub()
    pool = ThreadPool(1)
    assert pool.apply(get_hub_if_exists) is None
    pool.kill()


@pytest.mark.parametrize("wait", [lambda: gevent.sleep(9), lambda: Queue().get(), lambda: Event().wait(9)])
def test_kill_raises_an_error_where_the_main_code_waits(clock: Any, wait: Any) -> None:
    main = gevent.getcurrent()
    gevent.spawn(gevent.kill, main, Fatal("struck"))
    with pytest.raises(Fatal, match="struck"):
        wait()
    gevent.spawn(gevent.kill, main)
    with pytest.raises(gevent.GreenletExit):
        wait()
    gevent.kill(main, Fatal("of itself"))
    with pytest.raises(Fatal, match="of itself"):
        wait()


def test_kill_raises_an_error_where_a_thread_waits(clock: Any) -> None:
    thread = dhaga.spawn(gevent.sleep, 9)
    gevent.sleep(1)
    gevent.kill(thread, Fatal("struck"))
    with pytest.raises(Fatal, match="struck"):
        thread.result()
    with pytest.raises(TypeError, match="neither one of Dhaga's microthreads nor the main code"):
        gevent.kill(greenlet.greenlet(), Fatal)


def test_kill_from_another_os_thread_strikes_the_main_code() -> None:
    main = gevent.getcurrent()
    pool = ThreadPool(1)
    pool.spawn(gevent.kill, main, Fatal("struck"))
    with pytest.raises(Fatal, match="struck"):
        Event().wait(20)
    pool.kill()


def test_interfaces_are_the_classes(clock: Any) -> None:
    loop = gevent.get_hub().loop
    assert isinstance(loop, _interfaces.ILoop) and isinstance(loop.timer(1), _interfaces.IWatcher)
    callback = loop.run_callback(int)
    assert isinstance(callback, _interfaces.ICallback)
    callback.stop()
