"""The standard ``_thread`` on dhagas: what lies below ``threading``, for programs that use it directly.

Whatever is not defined here is the standard module's own.
"""

from __future__ import annotations

import _thread as standard
from collections.abc import Callable
from typing import Any

from .kernel.callers import scheduler_here
from .local import local as _local
from .locks import Lock, RLock
from .threading import get_ident

__all__ = ["LockType", "RLock", "_local", "allocate", "allocate_lock", "get_ident", "start_new", "start_new_thread"]

LockType = allocate_lock = allocate = Lock


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def start_new_thread(
    function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, /
) -> int:
    """Run ``function(*args, **kwargs)`` in a dhaga. Returns: its ident. Source: ``_thread.start_new_thread``."""
    if not callable(function):
        raise TypeError("first arg must be callable")
    if not isinstance(args, tuple):
        raise TypeError("2nd arg must be a tuple")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("optional 3rd arg must be a dictionary")

    def run() -> None:
        try:
            function(*args, **kwargs or {})
        except SystemExit:
            pass  # it ends the thread alone

    return scheduler_here().spawn(run, daemon=True).ident


start_new = start_new_thread
