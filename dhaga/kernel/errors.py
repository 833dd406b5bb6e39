"""What Dhaga raises of its own. Everything else is the standard library's exception for the same mistake."""

from __future__ import annotations


class Cancelled(BaseException):
    """Tell a dhaga to end: raised at its park by ``cancel(reason)``.

    A ``BaseException``, so that ``except Exception`` does not swallow it; ``finally`` blocks run and may park. Where a
    scope was cancelled, ``scope`` is that one: each park in it raises another, but for those in a ``shield()``.
    """

    def __init__(self, reason: object = None) -> None:
        super().__init__(*(() if reason is None else (reason,)))
        self.reason = reason
        self.scope: object = None


class Expired(BaseException):
    """Carry the end of one ``Timeout`` block up to that block, which turns it into ``TimeoutError``."""

    def __init__(self, timeout: object, number: int = -1) -> None:
        super().__init__(timeout)
        self.timeout = timeout
        self.number = number  # of the block, see kernel/cancels.py; -1: from outside of all


class Deadlock(RuntimeError):
    """Every dhaga waits and nothing in this process could wake one; the text says who waits for what, who holds it.

    Raised in the main code, at its park. How it is decided: see ``kernel/deadlock.py``.
    """


class LeftBehind(RuntimeError):
    """What was asked for stayed in the parent process: a fork takes only the code along that makes it."""


class ParkError(RuntimeError):
    """Something tried to park where that cannot work: on the hub, in a coroutine or callback, in a foreign greenlet."""


class PatchError(RuntimeError):
    """``dhaga.monkey.patch()`` comes too late; the text says for what, and which import is to come after it."""
