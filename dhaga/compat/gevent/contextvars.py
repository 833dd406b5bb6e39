"""``gevent.contextvars``: the standard ``contextvars``, because each greenlet has its own context."""

from __future__ import annotations

from contextvars import Context, ContextVar, Token, copy_context

__all__ = ["Context", "ContextVar", "Token", "copy_context"]
