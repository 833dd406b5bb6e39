"""Exceptions of Dhaga's own. For every other mistake Dhaga raises the standard library's exception."""

from __future__ import annotations

INDEX = "https://dhaga.readthedocs.io/reference/errors.html"
"""The errors index: each message with its cause and cure."""


class IndexedError(RuntimeError):
    """An error whose traceback ends with the command that prints its causes and cures, and with their address."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        name = type(self).__name__
        self.add_note(f"Causes and cures: python -m dhaga explain {name}, or {INDEX}#{name.lower()}")


class Cancelled(BaseException):
    """Ends a dhaga: raised at its park by ``cancel(reason)``.

    It is a ``BaseException``, so ``except Exception`` does not catch it. ``finally`` blocks run, and may park. If a
    scope was cancelled, ``scope`` is that scope: each park in it raises another ``Cancelled``, parks in a ``shield()``
    excepted.
    """

    def __init__(self, reason: object = None) -> None:
        # args stays empty without a reason, so that str() and the traceback's last line do not end in "None".
        super().__init__(*(() if reason is None else (reason,)))
        self.reason = reason
        self.scope: object = None


class Expired(BaseException):
    """Travels from a park up to its expired ``Timeout`` block, which turns it into ``TimeoutError``."""

    def __init__(self, timeout: object, number: int = -1) -> None:
        super().__init__(timeout)
        self.timeout = timeout
        # The number of the block, see _kernel/wait/cancellation.py; -1: outside all blocks.
        self.number = number


class Deadlock(IndexedError):
    """Every dhaga waits, and no event in this process could wake one. The text names each wait and what holds it.

    Raised in the main code, at its park.
    """


class LeftBehind(IndexedError):
    """The dhaga or scheduler is one of the parent process: in the child, only the code that forked goes on."""


class ParkError(IndexedError):
    """A caller tried to park where that cannot work: on the hub, in a coroutine or callback, in a foreign greenlet.

    A finalizer runs on the hub if the garbage collection that calls it happens there.
    """


class PatchError(IndexedError):
    """``dhaga.monkey.patch()`` comes too late. The text names the obstacle, and the import to move behind the patch."""


# The names that tracebacks show are those to import.
PACKAGE = __name__.partition(".")[0]
Cancelled.__module__ = Deadlock.__module__ = LeftBehind.__module__ = ParkError.__module__ = PACKAGE
PatchError.__module__ = f"{PACKAGE}.monkey"
