"""Scripts of ``sys.remote_exec``, with which debuggers attach: they run in the main code, as handlers of signals do.

CPython (3.14 and later) runs such a script between two bytecodes of the main thread, in a program that waits on the
hub, where nothing can park. No hook can stop it. But it announces the script by an audit event and then opens the file
by ``_io.open``: for this one call the file is empty, and the main code gets the script, in the middle of its park.
A script that strikes running main code, or a program without main code, runs where it struck.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from greenlet import getcurrent

from .. import originals
from ..run.uncaught import logger
from ..wait.current import this_thread
from .signals import signal_delivery_of

EVENT = "cpython.remote_debugger_script"

_io: Any = sys.modules["_io"]

redirected: list[Callable[[], None]] = []
"""The function that ends the redirection under way; at most one."""

listening: list[bool] = []


def listen_for_scripts() -> None:
    """Listen for scripts from now on: an audit hook, which stays for ever. It costs an audited call 0.2 µs."""
    if not listening and hasattr(sys, "is_remote_debug_enabled") and sys.is_remote_debug_enabled():
        listening.append(True)
        sys.addaudithook(on_audit)


def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Hand a script over to the main code if that waits. From: any code; never parks."""
    if event == EVENT:
        main = this_thread.main
        if main is not None and (main.parked or getcurrent() is not main.own_greenlet):
            redirect(arguments[0], signal_delivery_of(main).send)
    elif redirected:
        # The next event comes from the open itself. Otherwise it was made in another way.
        redirected.pop()()


def redirect(path: str, send: Callable[[Callable[[], None]], None]) -> None:
    """Give the next opener of the file an empty one; ``send`` gets a call that runs the script."""
    standard_open, ident = _io.open, originals.get_ident()

    def open_empty(file: Any, *args: Any, **options: Any) -> Any:
        if file != path or originals.get_ident() != ident or not redirected:
            return standard_open(file, *args, **options)
        redirected.pop()()
        with standard_open(file, "rb") as script:
            send(partial(run_script, path, script.read()))
        return io.BytesIO()

    redirected.append(lambda: setattr(_io, "open", standard_open))
    _io.open = open_empty


def run_script(path: str, source: bytes) -> None:
    """Run a script in a namespace of its own; an error is logged. From: the main code."""
    try:
        exec(compile(source, "<string>", "exec"), {})
    except Exception:
        logger.exception("the debugger's script %s failed", path)
