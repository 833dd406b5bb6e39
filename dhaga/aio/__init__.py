"""The bridge to asyncio: dhagas call coroutines like functions, and coroutines await dhagas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _sqlalchemy as _sqlalchemy  # this import enables SQLAlchemy to await in a dhaga
from ._async_for import aiter_
from ._async_with import enter
from ._run_in_dhaga import run_in_dhaga

__all__ = ["aiter_", "await_", "enter", "run_in_dhaga"]

if TYPE_CHECKING:
    from ._await import await_
else:

    def __getattr__(name: str) -> Any:
        """Return ``await_``, and make ``asyncio.get_event_loop()`` return the loop that ``await_`` uses."""
        if name != "await_":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _await, _current_loop

        _current_loop.install()
        globals()[name] = _await.await_
        return _await.await_
