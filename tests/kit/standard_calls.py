"""Stand-ins for ``dhaga._kernel.originals`` in one module. A change of the original would affect all OS threads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dhaga._kernel import originals


def originals_with(**changed: Any) -> SimpleNamespace:
    """Return a stand-in with some names changed. Set it as a module's ``originals``."""
    return SimpleNamespace(**{**vars(originals), **changed})
