"""``gevent.local``: attributes that each greenlet has for itself."""

from __future__ import annotations

from ..._sync.local import local

__all__ = ["local"]
