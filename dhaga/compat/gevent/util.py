"""``gevent.util``: reports about the greenlets of a program."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["format_run_info", "print_run_info", "wrap_errors"]


def format_run_info(*_: object, **__: object) -> list[str]:
    """Return a line for each dhaga, with the reason and place of its wait."""
    from ...debug import dump

    return str(dump()).splitlines()


def print_run_info(*_: object, file: Any = None, **__: object) -> None:
    """Print a line for each dhaga."""
    print("\n".join(format_run_info()), file=file or sys.stderr)


class wrap_errors:
    """A wrapper of a function: errors of given types are returned instead of raised."""

    def __init__(self, errors: Any, func: Any) -> None:
        self.errors: Any = errors
        self.func: Any = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.func(*args, **kwargs)
        except self.errors as error:
            return error
