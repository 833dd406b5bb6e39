"""``gevent.builtins``: the standard ``__import__``, which needs no additional lock on dhagas."""

from __future__ import annotations

from builtins import __import__

__all__ = ["__import__"]
