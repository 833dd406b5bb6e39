"""Turns: the right to operate on one file, as the compiled layers of ``io`` need it among dhagas.

They would not bear a second caller in the same OS thread while the first is parked in their middle (``RuntimeError:
reentrant call``, or a torn line), so that each operation first gets its turn. Not here: the files (``files.py``).

Rejected: to let whoever is parked change the ``__class__`` of the file, and to need no turn while nobody is. A line
would take a third of the time, and nobody would ever be handed the turn.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.channel import Channels, closed_error
from .kernel.waiting import this_waiter
from .locks import RLock
from .offload import OffloadPool

C = TypeVar("C", bound=type)

OFTEN = {"read", "readline", "write"}
"""Operations that the buffer serves most of the time, with one argument at most."""


class Turn(RLock):
    """The right to operate on one file, for a dhaga or thread at a time, and the way to the pool meanwhile."""

    __slots__ = ("borrowed", "channels", "closing", "inline", "pool", "struck")

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__()
        self.count = 1  # for who takes it in one step
        self.pool = pool
        self.struck = False  # a cancel came too late for an operation: it is for the next one
        self.channels: Channels | None = None  # of a file where data come and go at others' pace
        self.closing = False  # somebody waits for the turn to close the file
        self.borrowed = False  # the fd is somebody else's to close
        self.inline = False  # a finalizer closes the file: it must not park

    def __repr__(self) -> str:
        return super().__repr__().replace("RLock", "Turn", 1)

    def __enter__(self) -> bool:
        if self.inline:  # nobody else has the file, and at interpreter exit greenlet does not say who this is
            return True
        if self.struck and not self._is_owned():
            self.strike()
        return super().__enter__()

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        if not self.inline:
            self.release()

    def insist(self) -> None:
        """Take the turn whatever cancels say, to close the file. Who waits for data with it gets an OSError."""
        if self.inline:
            return
        if self._is_owned():
            self.count += 1
            return
        self.closing = True
        if self.channels is not None and self.holder is not None:
            former, self.channels = self.channels, Channels(self.channels.fd)
            former.close()
        self._acquire_restore(1)
        self.closing = False

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Have a blocking operation made, and wait for its end whatever happens: a file is not left half way."""
        if self.inline:
            return operation(*args)
        try:
            return self.pool.finish(operation, *args)
        finally:
            self.struck = self.struck or bool(this_waiter().pending)

    def wait_until(self, event: int) -> None:
        """Wait until the file is ready, unless it is not to block; a cancel, or who closes it, may end that."""
        assert self.channels is not None
        if self.inline or not os.get_blocking(self.channels.fd):
            return
        ready = originals.poll()
        ready.register(self.channels.fd, event)
        while not ready.poll(0):
            if self.closing:
                raise closed_error()
            me = this_waiter()
            channel = self.channels.of(me)
            (channel.wait_readable if event == originals.select_module.POLLIN else channel.wait_writable)(me)

    def strike(self) -> None:
        """Raise the cancel that came too late for the caller's last operation."""
        self.struck = False
        me = this_waiter()
        if me.pending:
            raise me.pending.pop(0)


def in_turn(*names: str) -> Callable[[C], C]:
    """Have these methods of a layer, and ``close``, wait for the turn of its file, which is in its ``turn``."""

    def decorate(kind: C) -> C:
        for name in names:
            wrap = often_in_turn if name in OFTEN else seldom_in_turn
            setattr(kind, name, wrap(getattr(kind, name)))
        layer: Any = kind
        layer.close = closing_in_turn(layer.close)
        layer.__del__ = finalizing_inline(layer.__del__)
        layer.__reduce_ex__ = refuse_pickling
        return kind

    return decorate


def seldom_in_turn(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(standard_method)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.turn:
            return standard_method(self, *args, **kwargs)

    return method


def often_in_turn(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with the turn's taking and giving written out, and without stars: a third of the cost."""

    @functools.wraps(standard_method)
    def method(self: Any, argument: Any = -1, /) -> Any:
        turn = self.turn
        if turn.inline:
            return standard_method(self, argument)
        me = getcurrent()
        if turn.holder is None and not turn.struck: turn.holder = me  # one step  # fmt: skip  # noqa: E701
        else:
            with turn:
                return standard_method(self, argument)
        try:
            return standard_method(self, argument)
        finally:
            if not turn.waiters: turn.holder = None  # one step  # fmt: skip  # noqa: E701
            else:
                turn.release()

    return method


def closing_in_turn(standard_close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(standard_close)
    def close(self: Any) -> None:
        turn = self.turn
        turn.insist()
        try:
            standard_close(self)
        finally:
            turn.__exit__()

    return close


def finalizing_inline(standard_finalizer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the finalizer, which closes a file that was dropped, without parking: finalizers run anywhere."""

    def __del__(self: Any) -> None:
        turn = getattr(self, "turn", None)
        if turn is None or is_closed(self):  # None: it was never opened
            return
        warning = f"unclosed file {self!r}"
        turn.inline = True
        try:
            standard_finalizer(self)
        finally:
            turn.inline = False
        if not turn.borrowed:
            warnings.warn(warning, ResourceWarning, stacklevel=2, source=self)  # comes last, as it may be an error

    return __del__


def is_closed(file: Any) -> bool:
    """Tell whether there is nothing to close."""
    try:
        return bool(file.closed)
    except ValueError:  # it was detached from the layer below
        return True


def refuse_pickling(file: Any, protocol: object) -> Any:
    """Raises: TypeError, before the standard way wraps the file in another one, which closes it."""
    raise TypeError(f"cannot pickle {type(file).__name__!r} instances")
