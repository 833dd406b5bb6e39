"""Argument checks for public calls: checks of functions to run in a dhaga or a worker, of counts, and of timeouts."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

from .. import originals

ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
NOT_PLAIN = ASYNC | inspect.CO_GENERATOR
"""The code flags of coroutine and generator functions: a call of such a function does not run its body."""

NAN = "Invalid value NaN (not a number)"


def check_function(fn: object, call: str, generators: bool = False) -> None:
    """Check that ``fn`` is a plain function. ``call``: the name of the caller, such as ``spawn``, ``submit`` or
    ``offload``.

    ``generators``: whether generator functions are allowed, as in the standard library's ``submit``. Raises: TypeError,
    whose text names the correct call.
    """
    if inspect.iscoroutine(fn):
        if inspect.getcoroutinestate(fn) == inspect.CORO_CREATED:
            # Closing the coroutine avoids the warning that it was never awaited.
            fn.close()
        raise TypeError(f"{call} needs a function to call, not {fn!r}: in a dhaga call await_(coroutine)")
    if not callable(fn):
        raise TypeError(f"{call} needs a function to call, not {fn!r}: {call}(fn, *args), not {call}(fn(*args))")
    plain: Any = fn
    while isinstance(plain, functools.partial):
        plain = plain.func
    flags = getattr(getattr(plain, "__code__", None), "co_flags", 0)
    if flags & ASYNC:
        raise TypeError(
            f"{fn!r} is a coroutine function, and {call} calls plain ones: call await_ or run_in_dhaga,\n"
            "dhaga.await_(fn(...)) in a dhaga for a coroutine,\n"
            "dhaga.aio.run_in_dhaga(fn, ...) in a coroutine for a dhaga"
        )
    if flags & inspect.CO_GENERATOR and not generators:
        raise TypeError(
            f"{fn!r} is a generator function, of which a call runs nothing: {call} a function that iterates over it"
        )


def check_count(what: str, count: int) -> int:
    """Check that a count is an integer of at least 1, and return it. Raises: TypeError, ValueError."""
    if not isinstance(count, int):
        raise TypeError(f"{what} is a number of them, not {count!r}")
    if count < 1:
        raise ValueError(f"{what} must be 1 or more, not {count}")
    return count


def check_acquire_timeout(blocking: bool, timeout: float | None) -> float | None:
    """Check and return the timeout of an ``acquire``; None means no timeout.

    Raises: ValueError, OverflowError, like the standard locks.
    """
    if timeout is None or timeout == -1:
        return None
    if not blocking:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0:
        raise ValueError("timeout value must be a non-negative number")
    check_wait_timeout(timeout)
    return timeout


def check_seconds(seconds: float | None) -> None:
    """Check a number of seconds. None, negative numbers and infinity are allowed.

    From: a call that waits, before the waiter is in any queue. Raises: ValueError for NaN; TypeError. NaN would break
    the order in the heap of deadlines: with NaN in front no other timer fires, and the loop never sleeps.
    """
    if seconds is not None and not seconds + 0.0 <= math.inf:
        raise ValueError(NAN)


def checked_delay(seconds: float, call: str) -> float:
    """Check and return the seconds of a sleep or delay. Raises: ValueError for a negative number or NaN; TypeError;
    OverflowError.
    """
    if not isinstance(seconds, (int, float)) and not hasattr(seconds, "__float__"):
        raise TypeError(f"{call} takes seconds, a number, and not {seconds!r}")
    if not seconds >= 0:
        raise ValueError(NAN if seconds != seconds else f"sleep length must not be negative: {seconds!r}")
    return float(seconds)


def checked_timeout(timeout: float | None) -> float | None:
    """Check and return the timeout of a block. Raises: ValueError, TypeError."""
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"a timeout is seconds or None, not {timeout!r}")
    if not timeout >= 0:
        what = NAN if timeout != timeout else repr(timeout)
        raise ValueError(f"a timeout is a number of seconds from 0 on, or None, not {what}")
    return timeout


def check_wait_timeout(timeout: float) -> None:
    """Check the timeout of a wait. A negative timeout counts as 0. Raises: ValueError, OverflowError, TypeError."""
    if not timeout + 0.0 <= originals.TIMEOUT_MAX:  # + 0.0 refuses a Decimal, which no clock can add
        if timeout != timeout:
            raise ValueError(NAN)
        raise OverflowError("timeout value is too large")


def check_timeout(timeout: float) -> None:
    """Check the timeout of a queue's ``get`` or ``put``. Raises: ValueError, OverflowError, like the standard queue."""
    if timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    check_wait_timeout(timeout)
