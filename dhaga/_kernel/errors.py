"""Dhaga's own exceptions. For all other errors Dhaga raises the standard library's exceptions."""

from __future__ import annotations

INDEX = "https://dhaga.readthedocs.io/reference/errors.html"
"""The address of the errors index, which explains the cause and cure of each error."""


class IndexedError(RuntimeError):
    """An error whose traceback ends with a hint: a command and a web address that explain its causes and cures."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        name = type(self).__name__
        self.add_note(f"Causes and cures: python -m dhaga explain {name}, or {INDEX}#{name.lower()}")


class Cancelled(BaseException):
    """The error that ``cancel(reason)`` raises at a dhaga's park, to end the dhaga.

    ``except Exception`` does not catch this ``BaseException``. ``finally`` blocks run and may park. After the cancel of
    a scope, ``scope`` is that scope: each park in the scope raises another ``Cancelled``, except in a ``shield()``.
    """

    def __init__(self, reason: object = None) -> None:
        # Without a reason, args stays empty, so that str() and the traceback's last line do not end in "None".
        super().__init__(*(() if reason is None else (reason,)))
        self.reason = reason
        self.scope: object = None


class Expired(BaseException):
    """The error that an expired ``Timeout`` raises at a park. The ``Timeout`` turns this error into TimeoutError."""

    def __init__(self, timeout: object, number: int = -1) -> None:
        super().__init__(timeout)
        self.timeout = timeout
        # The number of the block, see _kernel/wait/cancellation.py; -1: outside all blocks.
        self.number = number


class Deadlock(IndexedError):
    """Every dhaga waits, and no event in this process could wake a dhaga. The text names each wait and the holder of
    the awaited object.

    The error is raised at the park of the main code.
    """


class LeftBehind(IndexedError):
    """The dhaga or scheduler belongs to the parent process: in a forked child only the code that forked continues."""


class ParkError(IndexedError):
    """A caller tried to park where parking cannot work: on the hub, in a coroutine or callback, in a foreign greenlet.

    The hub is the greenlet that runs the event loop. The caller may be a finalizer: a garbage collection that starts on
    the hub calls finalizers on the hub.
    """


class PatchError(IndexedError):
    """``dhaga.monkey.patch()`` was called too late, or another package has also patched the program. The text names the
    obstacle and the remedy.
    """


# Tracebacks show the names under which users import these classes.
PACKAGE = __name__.partition(".")[0]
Cancelled.__module__ = Deadlock.__module__ = LeftBehind.__module__ = ParkError.__module__ = PACKAGE
PatchError.__module__ = f"{PACKAGE}.monkey"
