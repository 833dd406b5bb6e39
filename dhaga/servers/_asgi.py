"""Detection of ASGI apps. A WSGI server refuses such an app when the server starts, because each request would fail."""

from __future__ import annotations

import inspect
from typing import Any

PARAMETERS = ["scope", "receive", "send"]
"""The parameters of an app in ASGI 3.0."""


def is_asgi(app: Any) -> bool:
    """Return whether an app is an ASGI app: it is a coroutine function, or has the parameters of ASGI 3.0."""
    if inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(getattr(app, "__call__", None)):  # noqa: B004
        return not inspect.isclass(app)
    try:
        parameters = list(inspect.signature(app).parameters)
    except (TypeError, ValueError):
        return False
    return parameters == PARAMETERS


def refusal(target: str) -> str:
    """Return the error message that refuses an ASGI app. ``target``: ``module:app``, or ``module:factory()``."""
    name = f"--factory {target.removesuffix('()')}" if target.endswith("()") else target
    return (
        f"{target} is an ASGI app, but this server runs WSGI apps. Run it with an ASGI server, whose blocking "
        f"endpoints run in dhagas: python -m dhaga -m uvicorn {name}"
    )
