"""The bridge to asyncio: coroutines as plain calls in dhagas, dhagas as awaitables in coroutines."""

from __future__ import annotations

from . import _sqlalchemy as _sqlalchemy  # for its effect: SQLAlchemy can await in a dhaga
from ._await import await_
from ._run_in_dhaga import run_in_dhaga
from ._task_session import aiter_, enter

__all__ = ["aiter_", "await_", "enter", "run_in_dhaga"]
