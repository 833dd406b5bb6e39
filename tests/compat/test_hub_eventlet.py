"""``eventlet.hubs``: timers, waits for descriptors."""

from __future__ import annotations

import os
from typing import Any

import pytest
from greenlet import GreenletExit

from dhaga._kernel import originals
from dhaga.compat import eventlet
from dhaga.compat.eventlet import _settings, hubs
from dhaga.compat.eventlet import debug as eventlet_debug
from dhaga.compat.eventlet.hubs import _hub
from dhaga.testing import virtual_clock


def test_timers_of_the_hub() -> None:
    calls: list[Any] = []
    with virtual_clock() as clock:
        hub = hubs.get_hub()
        hub.schedule_call_global(2, lambda *args, **kwargs: calls.append((clock(), args, kwargs)), 1, a=2)
        hub.schedule_call_global(1, calls.append, "never").cancel()
        timer = eventlet.spawn(hub.schedule_call_local, 1, calls.append, "of one that has ended").wait()
        local = hub.schedule_call_local(1, calls.append, "of the main code")
        assert local.pending and hub.loop is not None
        sleeper = eventlet.spawn(eventlet.sleep, 1)
        eventlet.sleep(0)
        assert (hub.get_timers_count(), hub.get_readers(), hub.get_writers()) == (4, [], [])
        sleeper.wait()
        eventlet.sleep(2)
        assert calls == ["of the main code", (2, (1,), {"a": 2})] and hub.clock() == 3
        assert timer.called and local.called


def test_a_timer_can_be_cancelled_from_another_os_thread() -> None:
    calls: list[str] = []
    timer = hubs.get_hub().schedule_call_global(0.05, calls.append, "never")
    other = originals.Thread(target=timer.cancel)
    other.start()
    other.join()
    assert not timer.pending
    eventlet.sleep(0.1)
    assert calls == []


def test_a_wait_for_a_descriptor_ends_by_data_its_time_or_its_close() -> None:
    here, there = os.pipe()
    reader = eventlet.spawn(hubs.trampoline, here, read=True)
    hubs.trampoline(there, write=True, timeout=30)
    os.write(there, b"x")
    reader.wait()
    os.read(here, 1)
    with pytest.raises(eventlet.Timeout):
        hubs.trampoline(here, read=True, timeout=0.01)
    with pytest.raises(KeyError):
        hubs.trampoline(here, read=True, timeout=0.01, timeout_exc=KeyError("late"))
    reader = eventlet.spawn(hubs.trampoline, here, read=True)
    eventlet.spawn(hubs.notify_close, here)
    with pytest.raises(hubs.IOClosed):
        reader.wait()
    os.close(here)
    os.close(there)


def test_what_cannot_be_had_says_so() -> None:
    hubs.use_hub()
    for name in "epolls", "eventlet.hubs.asyncio", "eventlet.hubs.poll:Hub", hubs.get_default_hub(), _hub:
        hubs.use_hub(name)
    with pytest.raises(NotImplementedError, match="mine"):
        hubs.use_hub("mine.hubs.poll")
    with pytest.raises(NotImplementedError, match=r"dhaga\.Scheduler"):
        hubs.use_hub(object)
    with pytest.raises(NotImplementedError, match=r"dhaga\.park"):
        hubs.get_hub().switch()
    with pytest.raises(RuntimeError, match="one of"):
        hubs.trampoline(0, read=True, write=True)
    assert hubs.get_default_hub() is type(hubs.get_hub())


def test_a_call_in_0_seconds_comes_in_its_turn_on_the_hub() -> None:
    trace: list[Any] = []
    hub = hubs.get_hub()
    eventlet.spawn(trace.append, 1)
    hub.schedule_call_global(0, trace.append, 2)
    hub.schedule_call_global(0, trace.append, "never").cancel()
    eventlet.spawn(trace.append, 3)
    eventlet.sleep(0)
    assert trace == [1, 2, 3]


def raised(error: BaseException) -> None:
    raise error


@pytest.mark.logs
@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("error", [ZeroDivisionError("x"), eventlet.Timeout(None), GreenletExit("x")])
def test_a_call_that_fails_harms_no_other(
    caplog: pytest.LogCaptureFixture, error: BaseException, seconds: float
) -> None:
    done: list[int] = []
    hub = hubs.get_hub()
    with virtual_clock():
        hub.schedule_call_global(seconds, raised, error)
        hub.schedule_call_global(seconds, done.append, 1)
        eventlet.sleep(seconds)
        eventlet.sleep(0)
    assert done == [1] and type(error).__name__ in caplog.text


@pytest.mark.parametrize("seconds", [0, 1])
def test_an_exit_of_a_call_ends_the_main_code_and_harms_no_other(seconds: float) -> None:
    done: list[int] = []
    hub = hubs.get_hub()
    with virtual_clock():
        hub.schedule_call_global(seconds, raised, SystemExit(3))
        hub.schedule_call_global(seconds, done.append, 1)
        with pytest.raises(SystemExit) as caught:
            eventlet.sleep(9)
        eventlet.sleep(0)
    assert (caught.value.code, done) == (3, [1])


def test_who_waits_for_a_descriptor_is_listed() -> None:
    here, there = os.pipe()
    reader = eventlet.spawn(hubs.trampoline, here, read=True)
    eventlet.sleep(0)
    listeners = hubs.get_hub().get_readers()
    assert [each.greenlet for each in listeners] in ([reader], []) and hubs.get_hub().get_writers() == []
    reader.kill()
    os.close(here)
    os.close(there)


def test_the_clock_is_the_standard_one_which_no_test_can_replace() -> None:
    assert hubs.get_hub().clock is originals.monotonic


def test_the_hub_tells_whether_errors_are_reported() -> None:
    hub = hubs.get_hub()
    assert hub.debug_exceptions
    eventlet_debug.hub_exceptions(False)
    assert not hub.debug_exceptions
    hub.debug_exceptions = True
    assert _settings.hub_exceptions
