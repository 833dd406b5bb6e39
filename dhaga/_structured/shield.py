"""``shield``: a block that delays cancels from outside until its end. See ``_kernel/wait/cancellation.py``."""

from __future__ import annotations

from typing import Self

from .._kernel.api import current
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.wait.cancellation import PendingErrors, pending_errors_of


@refuse_async_with("await asyncio.shield(...)")
class shield:
    """Delay cancels from outside a block until the block has ended, for example in a ``finally``.

    Calls of the dhaga's ``cancel()``, cancels of outer scopes and expiries of outer Timeouts are raised at the next
    park after the block. A Ctrl-C is raised nevertheless; a second Ctrl-C also ends the shielded parks of a scope's
    children. To limit the block's time, use ``fail_after`` inside the block. Parks: never. From: a dhaga, main code.

    >>> import dhaga
    >>> with dhaga.move_on_after(0.001) as scope, shield(): dhaga.sleep(0.002)
    >>> scope.expired, scope.cancelled_caught
    (True, False)
    """

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number: int | None = None

    def __repr__(self) -> str:
        return f"<shield {'not entered' if self._number is None else self._number}>"

    def __enter__(self) -> Self:
        if self._number is not None:
            raise RuntimeError(f"{self!r} is already entered or was used before: make one for each block")
        me = current()
        self._number = me.scheduler.timers.sequence()
        pending_errors_of(me).shield(self._number)
        return self

    def __exit__(self, *_: object) -> None:
        pending = current().pending_errors
        if not isinstance(pending, PendingErrors) or self._number not in pending.shields:
            raise RuntimeError(f"{self!r} was entered by another caller: enter and leave it in the same dhaga")
        pending.unshield(self._number)
