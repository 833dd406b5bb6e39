"""``gevent.builtins``: the standard ``builtins``; an import needs no lock of ours."""

from __future__ import annotations

from builtins import __import__

__all__ = ["__import__"]
