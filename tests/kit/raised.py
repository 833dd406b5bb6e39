"""Errors of calls: raised by a function, and as a value."""

from __future__ import annotations

from typing import Any


def fail(error: BaseException) -> Any:
    raise error


def error_of(call: Any) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None
