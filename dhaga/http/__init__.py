"""HTTP clients for dhagas. The WSGI server is in ``dhaga.http.wsgi``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._client.http_client import HTTPClient

if TYPE_CHECKING:
    from .requests import Session as Session  # not in __all__: a star import must not require requests

__all__ = ["HTTPClient"]


def __getattr__(name: str) -> Any:
    if name == "Session":
        from .requests import Session

        return Session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
