"""Where an uncaught error of a dhaga goes: to ``dhaga.excepthook``, or, of an exit, to the main code."""

from __future__ import annotations

import contextlib
import logging
import sys
from threading import ExceptHookArgs
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .microthread import Dhaga

logger = logging.getLogger("dhaga")
# How the names of this package's modules begin.
PACKAGE_PREFIX = f"{__name__.partition('.')[0]}."


def excepthook(args: ExceptHookArgs) -> None:
    """Log an error that ended a dhaga: the default of ``dhaga.excepthook``, which may be replaced by assignment.

    ``args`` is what ``threading.excepthook`` gets: exc_type, exc_value, exc_traceback, and the dhaga as ``thread``.
    """
    name = args.thread.name if args.thread is not None else "a dhaga"
    info = (args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)
    logger.error("%s ended with an uncaught error", name, exc_info=info)


def call_excepthook(thread: Any, error: BaseException) -> None:
    """Call ``dhaga.excepthook``; an error of the hook itself is logged."""
    # Looked up at each call: users assign to it.
    hook = getattr(sys.modules.get("dhaga"), "excepthook", excepthook)
    try:
        hook(ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    except Exception:
        logger.exception("dhaga.excepthook failed on %r of %s", error, thread.name)


class UnseenError:
    """Holds the error of a dhaga in the result of ``wait``; reports it if the dhaga is freed with the error unseen.

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
    """Return the error that ends the program: a SystemExit or KeyboardInterrupt, also from the group of a scope."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(find_exit, error.exceptions)), None)
    return error if isinstance(error, (SystemExit, KeyboardInterrupt)) else None


def clear_own_frames(error: BaseException | None) -> None:
    """Clear this package's frames in tracebacks: they refer to the dhaga that holds the error, which is a cycle."""
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
