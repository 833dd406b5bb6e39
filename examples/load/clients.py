"""What users make requests with: `requests` as a whole, or what most scenarios need of it, lighter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dhaga import http

from . import light_client


def comfortable() -> Any:
    """Make a `requests.Session` that parks; it does not look for proxies and passwords in the environment each time."""
    session = http.Session()
    session.trust_env = False
    return session


CLIENTS: dict[str, Callable[[], Any]] = {"requests": comfortable, "light": light_client.Session}
"""By their names on the command line; the first is the default."""
