"""Code shared by the tests of scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import Cancelled


def works(seconds: float, trace: list[Any], error: BaseException | None = None) -> float:
    """Sleep, then raise ``error`` or return. The trace gets an entry for a return or a cancel."""
    try:
        dhaga.sleep(seconds)
        if error is not None:
            raise error
    except Cancelled as cancel:
        trace.append((seconds, cancel.reason))
        raise
    else:
        trace.append(seconds)
    return seconds


def errors_in(block: Callable[[], object]) -> list[BaseException]:
    """Return the errors of the group that a block raises: an ExceptionGroup if all errors are Exceptions."""
    try:
        block()
    except BaseExceptionGroup as group:
        assert isinstance(group, ExceptionGroup) is all(isinstance(each, Exception) for each in group.exceptions)
        return list(group.exceptions)
    pytest.fail("no error")
