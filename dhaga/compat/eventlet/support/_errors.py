"""``get_errno``: the error number of an exception."""

from __future__ import annotations

from typing import Any


def get_errno(exc: BaseException) -> Any:
    """Return the errno of an exception, or else its first argument, or None."""
    number = getattr(exc, "errno", None)
    return number if number is not None else exc.args[0] if exc.args else None
