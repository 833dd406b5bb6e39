"""The bridge to asyncio: coroutines as plain calls in dhagas, dhagas as awaitables in coroutines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _sqlalchemy as _sqlalchemy  # for its effect: SQLAlchemy can await in a dhaga
from ._run_in_dhaga import run_in_dhaga
from ._task_session import aiter_, enter

__all__ = ["aiter_", "await_", "enter", "run_in_dhaga"]

if TYPE_CHECKING:
    from ._await import await_
else:

    def __getattr__(name: str) -> Any:
        """Return ``await_``, and let ``asyncio.get_event_loop()`` return the loop that it uses."""
        if name != "await_":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _await, _current_loop

        _current_loop.install()
        globals()[name] = _await.await_
        return _await.await_
