"""The error that a greenlet's ``throw`` raises. It is given as an exception, or by type, value and traceback."""

from __future__ import annotations

from typing import Any

from greenlet import GreenletExit


def thrown(kind: Any = GreenletExit, value: Any = None, trace: Any = None) -> BaseException:
    """Return the error that a type, a value and a traceback describe."""
    error: BaseException
    if isinstance(kind, BaseException):
        error = kind
    elif isinstance(value, BaseException):
        error = value
    else:
        error = kind() if value is None else kind(value)
    return error if trace is None else error.with_traceback(trace)
