"""Generator functions as greenlets: gevent and eventlet call such a function silently, although its body never runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import CO_GENERATOR
from typing import Any


def taken_by_spawn(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn``; for a generator function, return a wrapper that ``dhaga.spawn`` accepts.

    ``dhaga.spawn`` refuses generator functions, but the functions of gevent and eventlet accept them.
    """
    code = getattr(fn, "__code__", None)
    return fn if code is None or not code.co_flags & CO_GENERATOR else partial(fn)
