"""What the tests of scopes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import Cancelled


def works(seconds: float, trace: list[Any], error: BaseException | None = None) -> float:
    """Sleep, then fail or return; leave a word in the trace in any case."""
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
    """Return what comes out of a block in a group, which must be of the least general kind."""
    try:
        block()
    except BaseExceptionGroup as group:
        assert isinstance(group, ExceptionGroup) is all(isinstance(each, Exception) for each in group.exceptions)
        return list(group.exceptions)
    pytest.fail("no error")
