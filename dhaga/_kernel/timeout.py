"""Timeout: a time limit for all parks of a block."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from .api import current
from .errors import Expired
from .faces.arguments import checked_timeout
from .faces.foreign_names import OF_A_TIMEOUT, refuse_async_with, say_foreign_names
from .run.main_code import Main
from .run.microthread import Dhaga
from .run.timers import Entry


@refuse_async_with("async with asyncio.timeout(...)")
class Timeout:
    """Limit the time of a block to ``seconds``: a park beyond this time is undone, and the block raises TimeoutError.

    Blocks can be nested: each block turns only its own expiry into TimeoutError. In the block, the expiry is raised as
    a ``BaseException`` (``Expired``), so that ``except OSError`` around a socket call does not catch it. ``seconds``:
    None for no limit. ``expired``: whether the time limit was exceeded. ``error``: an exception or exception class to
    raise instead of TimeoutError. Parks: never. From: a dhaga, main code. Use each object for only one ``with`` block.
    The expiry is raised at the next park. If the program lets deadlines interrupt code that computes, for example with
    ``DHAGA_PREEMPT=0.01`` (CPython 3.12 and newer), the expiry also interrupts such code.
    Raises: ValueError, TypeError.

    >>> import dhaga
    >>> with dhaga.Timeout(0.01):
    ...     dhaga.sleep(1)
    Traceback (most recent call last):
    TimeoutError: not done within 0.01 s
    """

    def __init__(self, seconds: float | None, error: BaseException | type[BaseException] | None = None) -> None:
        self.seconds: float | None = checked_timeout(seconds)
        if error is not None:
            check_error(error)
        self._raised_instead = error
        self.entered: bool = False
        self.expired: bool = False
        self.error: Expired | None = None
        self.entry: Entry | None = None
        self._waiter: Dhaga | Main | None = None

    def __repr__(self) -> str:
        return f"<Timeout {self.seconds} s{', expired' if self.expired else ''}>"

    def __enter__(self) -> Self:
        if self.entered:
            raise RuntimeError(f"{self!r} is already entered or was used before: make one for each block")
        self._waiter = current()
        self.entered = True
        if self.seconds is not None:
            scheduler = self._waiter.scheduler
            self.entry = scheduler.expire_after(self.seconds, self)
        return self

    def _expire(self) -> None:
        """Interrupt the block. From: the scheduler's timers, on the hub."""
        assert self._waiter is not None and self.entry is not None
        self.expired = True
        self.error = Expired(self, self.entry[1])
        self._waiter.cancel_with(self.error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        waiter = self._waiter
        assert waiter is not None
        # The timer is discarded first: at a later line a finalizer may park, and the Timeout would expire meanwhile.
        if self.entry is not None:
            waiter.scheduler.timers.discard(self.entry)
        self._waiter = None
        # The error refers to this Timeout. If the Timeout kept the error, the two references would make a cycle.
        own_error, self.error = self.error, None
        # If the block ended after the expiry without a park in between, the pending expiry would be raised outside the
        # block.
        if own_error is not None and own_error in waiter.pending_errors:
            waiter.pending_errors.remove(own_error)
        if own_error is not None and own_error is error:
            if self._raised_instead is not None:
                raise self._raised_instead from error
            raise TimeoutError(f"not done within {self.seconds} s") from error


say_foreign_names(Timeout, OF_A_TIMEOUT)


def check_error(error: object) -> None:
    """Check the ``error`` argument of a Timeout. Raises: TypeError."""
    if error is False:
        raise TypeError("a Timeout raises an error; for a silent one: with dhaga.move_on_after(seconds): ...")
    if not isinstance(error, BaseException) and not (isinstance(error, type) and issubclass(error, BaseException)):
        raise TypeError(f"the error of a Timeout is an exception or a class of them, not {error!r}")
