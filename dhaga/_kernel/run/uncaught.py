"""Uncaught errors of dhagas: the call of ``dhaga.excepthook``, and the search for errors that end the program."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from threading import ExceptHookArgs
from typing import TYPE_CHECKING, Any

from ..errors import Cancelled, Expired

if TYPE_CHECKING:
    from .microthread import Dhaga
    from .scheduler import Scheduler

logger = logging.getLogger("dhaga")
# The prefix of the names of this package's modules.
PACKAGE_PREFIX = f"{__name__.partition('.')[0]}."


def excepthook(args: ExceptHookArgs) -> None:
    """Log an error that ended a dhaga. This is the default ``dhaga.excepthook``; replace it by assignment.

    ``args`` has the same attributes as for ``threading.excepthook``: exc_type, exc_value, exc_traceback, and the dhaga
    as ``thread``.
    """
    name = args.thread.name if args.thread is not None else "a dhaga"
    info = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("%s ended with an uncaught error", name, exc_info=info)


def call_excepthook(thread: Any, error: BaseException) -> None:
    """Call ``dhaga.excepthook``, and log an error of the hook itself."""
    # The hook is looked up at each call, because programs assign to it.
    hook = getattr(sys.modules.get("dhaga"), "excepthook", excepthook)
    try:
        hook(ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    except Exception:
        logger.exception("dhaga.excepthook failed on %r of %s", error, thread.name)


def report(dhaga: Dhaga, error: BaseException) -> None:
    """Call ``dhaga.excepthook`` in the dhaga that has failed. If a cancel ends a park of the hook, log the error."""
    try:
        call_excepthook(dhaga, error)
    except (Cancelled, Expired):
        logger.exception("the report of %r of %s was cancelled", error, dhaga.name)


class UnseenError:
    """The unseen error of a dhaga that ``wait`` has returned. If the dhaga is freed with its error unseen, this object
    reports the error.

    The excepthook gets this object as ``thread``, because the dhaga no longer exists.
    """

    __slots__ = ("error", "ident", "name")

    def __init__(self, dhaga: Dhaga) -> None:
        self.name = dhaga.name
        self.ident = dhaga.ident
        self.error = dhaga._error

    def __del__(self) -> None:
        if self.error is not None:
            call_excepthook(self, self.error)


def find_exit(error: BaseException) -> BaseException | None:
    """Return the error that ends the program: a SystemExit or KeyboardInterrupt, perhaps in an exception group."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_exit, error.exceptions)), None)
    return error if isinstance(error, (SystemExit, KeyboardInterrupt)) else None


def interrupt_main(scheduler: Scheduler, error: BaseException) -> bool:
    """Pass the SystemExit or KeyboardInterrupt that an error contains to the main code, if there is one.

    Returns: whether ``error`` itself is this exception, and not a group that contains it.
    """
    exit = find_exit(error)
    if exit is not None:
        scheduler.mode.interrupt(exit)
    return exit is error


def is_outcome(future: Any, error: BaseException) -> bool:
    """Return whether an asyncio Future has ended with this error. Other objects are accepted, and have no outcome."""
    return asyncio.isfuture(future) and future.done() and not future.cancelled() and future.exception() is error


def clear_own_frames(error: BaseException | None) -> None:
    """Clear this package's frames in the tracebacks of an error.

    A frame refers to the dhaga, the dhaga to its error, and the error to its frames: this would be a cycle.
    """
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                clear_own_frames(each)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_globals.get("__name__", "").startswith(PACKAGE_PREFIX):
                # RuntimeError: the frame still runs.
                with contextlib.suppress(RuntimeError):
                    trace.tb_frame.clear()
            trace = trace.tb_next
        error = error.__context__
