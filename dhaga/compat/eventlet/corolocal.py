"""``eventlet.corolocal``: objects whose attributes have a separate value in each greenthread."""

from __future__ import annotations

from ..._sync.local import local
from ...thread import get_ident

__all__ = ["get_ident", "local"]
