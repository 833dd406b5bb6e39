"""``dhaga.time``: the standard module with a sleep that parks."""

from __future__ import annotations

import threading
import time as standard
from typing import Any

import pytest

import dhaga
from dhaga import time
from dhaga.testing import virtual_clock


def test_sleep_parks_and_lets_others_run() -> None:
    steps: list[str] = []
    with virtual_clock() as clock:
        dhagas = [dhaga.spawn(lambda n=n: (time.sleep(n), steps.append(f"{clock()}"))) for n in (2, 1.5, 1)]
        time.sleep(0)
        assert dhagas[0].reason == "sleep"
        for d in dhagas:
            d.join()
    assert steps == ["1.0", "1.5", "2.0"]


@pytest.mark.parametrize(
    ("seconds", "error"),
    [
        (-1, ValueError),
        (float("nan"), ValueError),
        (float("inf"), OverflowError),
        (2.0**63, OverflowError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_what_the_standard_refuses_is_refused_alike(seconds: Any, error: type[BaseException]) -> None:
    with pytest.raises(error) as theirs:
        standard.sleep(seconds)
    with pytest.raises(error) as ours:
        time.sleep(seconds)
    assert error is TypeError or str(ours.value).split()[0] == str(theirs.value).split()[0]


def test_all_else_is_the_standards() -> None:
    assert time.process_time is standard.process_time and {*dir(standard)} <= {*dir(time)}
    with pytest.raises(AttributeError):
        time.no_such_name


@pytest.mark.skipif(not hasattr(standard, "pthread_getcpuclockid"), reason="no CPU clocks of threads here")
def test_the_cpu_clock_of_a_dhaga_is_that_of_its_os_thread() -> None:
    with virtual_clock():
        d = dhaga.spawn(dhaga.sleep, 1)
        own = standard.pthread_getcpuclockid(threading.get_ident())
        assert time.pthread_getcpuclockid(d.ident) == time.pthread_getcpuclockid(threading.get_ident()) == own
        assert standard.clock_gettime(own) > 0
        d.join()
        with pytest.raises(ProcessLookupError):
            time.pthread_getcpuclockid(d.ident)
        with pytest.raises(TypeError):
            time.pthread_getcpuclockid("1")


CLOCKS = [name for name in dir(standard) if name.removesuffix("_ns") in ("monotonic", "perf_counter", "time")]


@pytest.mark.parametrize("name", CLOCKS)
def test_each_clock_that_passes_in_a_sleep_passes_on_a_virtual_clock(name: str) -> None:
    """In main code and in dhagas; a plain thread, and a program that is not under test, has the standard's."""
    assert len(CLOCKS) == 6
    clock, standards = getattr(time, name), getattr(standard, name)
    hour = 3600 * (10**9 if name.endswith("_ns") else 1)

    def passed() -> float:
        began = clock()
        time.sleep(3600)
        return float(clock() - began)

    assert standards() <= clock() <= standards()
    of_thread: list[float] = []
    with virtual_clock():
        assert [passed(), dhaga.spawn(passed).result()] == [pytest.approx(hour, abs=hour * 1e-9)] * 2
        thread = threading.Thread(target=lambda: of_thread.extend([standards(), clock(), standards()]))
        thread.start()
        thread.join()
    assert of_thread == sorted(of_thread)
    assert standards() <= clock() <= standards()
