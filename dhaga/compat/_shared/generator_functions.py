"""Generator functions of greenlets: gevent and eventlet call such a function silently, although nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import CO_GENERATOR
from typing import Any


def taken_by_spawn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a generator function as gevent and eventlet do: ``dhaga.spawn`` refuses generator
    functions.
    """
    code = getattr(fn, "__code__", None)
    return fn if code is None or not code.co_flags & CO_GENERATOR else partial(fn)
