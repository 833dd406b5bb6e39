"""Runs the scripts of ``sys.remote_exec`` in the main code, like signal handlers. Debuggers attach with such scripts.

CPython 3.14 and later run such a script between two bytecodes of the main thread. If the program waits, the script
would run on the hub, where nothing can park. No hook can prevent this. But CPython announces the script with an audit
event, and then opens the script's file with ``_io.open``. Dhaga makes this call return an empty file, and the main code
runs the script during its park. If the main code runs, or there is no main code, the script runs without this detour.
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
"""The function that ends the present redirection. The list has at most one item."""

listening: list[bool] = []


def listen_for_scripts() -> None:
    """Install the audit hook for scripts. The hook cannot be removed, and adds 0.2 µs to each audited call."""
    if not listening and hasattr(sys, "is_remote_debug_enabled") and sys.is_remote_debug_enabled():
        listening.append(True)
        sys.addaudithook(on_audit)


def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Redirect a script to the main code if the main code waits. Parks: never. From: any code."""
    if event == EVENT:
        main = this_thread.main
        if main is not None and (main.parked or getcurrent() is not main.own_greenlet):
            redirect(arguments[0], signal_delivery_of(main).send)
    elif redirected:
        # CPython has opened the file in another way: ``open_empty`` would have ended the redirection before this event.
        redirected.pop()()


def redirect(path: str, send: Callable[[Callable[[], None]], None]) -> None:
    """Make the next ``_io.open`` of the file return an empty file. ``send`` is called with a function that runs the
    script.
    """
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
    """Run a script in a namespace of its own, and log its error, if any. From: the main code."""
    try:
        exec(compile(source, "<string>", "exec"), {})
    except Exception:
        logger.exception("the debugger's script %s failed", path)
