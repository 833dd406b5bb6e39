"""Recognition of ASGI apps: the servers here call WSGI apps, and refuse others at the start, not at each request."""

from __future__ import annotations

import inspect
from typing import Any

PARAMETERS = ["scope", "receive", "send"]
"""Parameters of an ASGI app (ASGI 3.0)."""


def is_asgi(app: Any) -> bool:
    """Return whether an app, or its ``__call__``, is a coroutine function, or has an ASGI app's parameters."""
    if inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        return not inspect.isclass(app)
    try:
        parameters = list(inspect.signature(app).parameters)
    except (TypeError, ValueError):
        return False
    return parameters == PARAMETERS


def refusal(target: str) -> str:
    """Return the message for an ASGI app, named as on a command line: ``module:app``, or ``module:factory()``."""
    name = f"--factory {target.removesuffix('()')}" if target.endswith("()") else target
    return (
        f"{target} is an ASGI app, but this server runs WSGI apps. Run it with an ASGI server, whose blocking "
        f"endpoints run in dhagas: python -m dhaga -m uvicorn {name}"
    )
