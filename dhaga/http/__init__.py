"""HTTP for dhagas: the client."""

from __future__ import annotations

from .client import HTTPClient

__all__ = ["HTTPClient"]
