"""Checks of arguments: a bad function or timeout is refused at once, with what to write instead."""

from __future__ import annotations

import asyncio
import functools
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

import dhaga
from dhaga._kernel.faces.arguments import check_acquire_timeout, check_function, check_timeout
from dhaga.queue import Queue
from dhaga.threading import Event, Lock


async def coroutine_function() -> None: ...


async def async_generator_function() -> AsyncIterator[int]:
    yield 1


def generator_function() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("fn", [int, len, lambda: 1, functools.partial(int, "1")])
def test_a_plain_function_passes(fn: Callable[..., object]) -> None:
    check_function(fn, "spawn")


@pytest.mark.parametrize(
    "fn", [coroutine_function, async_generator_function, functools.partial(functools.partial(coroutine_function))]
)
def test_a_coroutine_function_is_refused_with_both_ways_out(fn: Any) -> None:
    with pytest.raises(TypeError, match=r"coroutine function, and submit calls .*await_.*run_in_dhaga"):
        check_function(fn, "submit")


def test_a_coroutine_is_refused_and_does_not_warn_that_it_was_never_awaited() -> None:
    coroutine = coroutine_function()
    with warnings.catch_warnings(), pytest.raises(TypeError, match=r"in a dhaga call await_"):
        warnings.simplefilter("error")
        check_function(coroutine, "spawn")
    with pytest.raises(RuntimeError, match=r"reuse|already"):
        asyncio.run(coroutine)


def test_the_result_of_a_call_is_refused_with_the_form_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"not 3: offload\(fn, \*args\), not offload\(fn\(\*args\)\)"):
        check_function(3, "offload")


def test_a_generator_function_is_refused_unless_the_standard_contract_takes_it() -> None:
    with pytest.raises(TypeError, match=r"is a generator function.*offload a function that iterates over it"):
        check_function(generator_function, "offload")
    check_function(generator_function, "submit", generators=True)


@pytest.mark.parametrize(
    ("blocking", "timeout"),
    [(True, -1), (True, None), (False, -1), (True, 0), (True, 1.5), (True, threading.TIMEOUT_MAX)],
)
def test_a_timeout_of_acquire_is_what_the_standard_takes(blocking: bool, timeout: Any) -> None:
    assert check_acquire_timeout(blocking, timeout) == (None if timeout == -1 else timeout)
    if timeout is not None:
        threading.Lock().acquire(blocking, timeout)


@pytest.mark.parametrize(("blocking", "timeout"), [(False, 1), (True, -2), (True, threading.TIMEOUT_MAX * 2)])
def test_a_timeout_of_acquire_is_refused_as_by_the_standard(blocking: bool, timeout: float) -> None:
    with pytest.raises((ValueError, OverflowError)) as standard:
        threading.Lock().acquire(blocking, timeout)
    with pytest.raises(standard.type):
        check_acquire_timeout(blocking, timeout)


@pytest.mark.parametrize("seconds", [Decimal("0.01"), 10**400, "1"], ids=["decimal", "large", "text"])
def test_a_number_that_cannot_be_added_to_the_time_leaves_the_caller_unparked(seconds: Any) -> None:
    def refused() -> None:
        event, held = Event(), Lock()
        held.acquire()
        for call in (
            lambda: event.wait(seconds),
            lambda: held.acquire(timeout=seconds),
            lambda: dhaga.park("x", timeout=seconds),
            lambda: Queue().get(timeout=seconds),
            lambda: dhaga.sleep(seconds) if not isinstance(seconds, Decimal) else float("x"),
        ):
            with pytest.raises((TypeError, OverflowError, ValueError)):
                call()
            assert not dhaga.current().parked
        event.set()
        assert not event._waiters_ and "0 parked" in repr(held)

    dhaga.spawn(refused).result()
    refused()


def test_a_negative_timeout_of_a_queue_is_refused() -> None:
    for timeout in (0, 0.5):
        check_timeout(timeout)
    with pytest.raises(ValueError, match="'timeout' must be a non-negative number"):
        check_timeout(-0.1)
