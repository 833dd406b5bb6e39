"""``gevent.util``: reports about the greenlets of a program, and ``wrap_errors``."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["format_run_info", "print_run_info", "wrap_errors"]


def format_run_info(*_: object, **__: object) -> list[str]:
    """Return the lines of ``dhaga.debug.dump()``, which shows the stack and the wait of each dhaga."""
    from ...debug import dump

    return str(dump()).splitlines()


def print_run_info(*_: object, file: Any = None, **__: object) -> None:
    """Print the lines of ``format_run_info``."""
    print("\n".join(format_run_info()), file=file or sys.stderr)


class wrap_errors:
    """A callable that calls a function, and returns errors of given types instead of raising them."""

    def __init__(self, errors: Any, func: Any) -> None:
        self.errors: Any = errors
        self.func: Any = func

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.func(*args, **kwargs)
        except self.errors as error:
            return error
