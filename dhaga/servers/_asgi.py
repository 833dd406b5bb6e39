"""Recognise ASGI apps: the servers here call WSGI apps, and refuse others at the start, not by each answer."""

from __future__ import annotations

import inspect
from typing import Any

PARAMETERS = ["scope", "receive", "send"]
"""What an ASGI app is called with (ASGI 3.0)."""


def is_asgi(app: Any) -> bool:
    """Report whether an app is a coroutine function, has such a ``__call__``, or takes an ASGI app's parameters."""
    if inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        return not inspect.isclass(app)
    try:
        parameters = list(inspect.signature(app).parameters)
    except (TypeError, ValueError):
        return False
    return parameters == PARAMETERS


def refusal(target: str) -> str:
    """Return what to say of an ASGI app, named as on a command line: ``module:app``, or ``module:factory()``."""
    name = f"--factory {target.removesuffix('()')}" if target.endswith("()") else target
    return (
        f"{target} is an ASGI app, and this serves WSGI apps. An ASGI server runs it, with its blocking endpoints in "
        f"dhagas: python -m dhaga -m uvicorn {name}"
    )
