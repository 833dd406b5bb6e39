"""``no_park``: a block in which a call that would park raises an error instead."""

from __future__ import annotations

import sys
from typing import Self

from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.wait.cancellation import NoPark, PendingErrors, pending_errors_of
from .._kernel.wait.current import this_waiter


@refuse_async_with()
class no_park:
    """Raise ParkError in each call that would park within a block: ``with no_park(): update(table)``.

    Use the block for code that other dhagas must not interrupt, or to find calls that park. A call that need not wait
    succeeds. Acquiring the lock again at the end of ``Condition.wait`` also succeeds. Parks: never. From: a dhaga, main
    code, any OS thread.
    """

    __slots__ = ("_marker",)

    def __init__(self) -> None:
        self._marker: NoPark | None = None

    def __enter__(self) -> Self:
        if self._marker is not None:
            raise RuntimeError("this no_park() is already entered or was used before: make one for each block")
        code = sys._getframe(1)
        self._marker = NoPark(f"{code.f_code.co_filename}:{code.f_lineno}")
        pending_errors_of(this_waiter()).append(self._marker)
        return self

    def __exit__(self, *_: object) -> None:
        pending = this_waiter().pending_errors
        if self._marker is None or not isinstance(pending, PendingErrors) or self._marker not in pending:
            raise RuntimeError("this no_park() was entered by another caller: enter and leave it in the same dhaga")
        pending.drop(self._marker)
