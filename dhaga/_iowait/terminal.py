"""``input()`` at a terminal: it parks until there is something to read, and then the interpreter reads the line.

Without the module ``readline`` the terminal itself edits the line, and the interpreter finds it complete. ``readline``
needs each key. So the terminal passes on the first key while the caller is parked, and the line begins with that key.
While the line is edited, C code holds the OS thread.

Rejected: reading in an OS thread, because nothing could end that read after a cancel or a Ctrl-C: it would take the
next line; and parking in a hook of ``readline``, which swallows what a hook raises.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator
from typing import Any

from .._kernel import originals
from .._kernel.context_manager import contextmanager
from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.wait.current import parking_waiter
from .._sync.lock import RLock
from .fd_ops import POLLIN, wait_until

__all__ = ["input"]

standard_input = builtins.input

STDIN, STDOUT, STDERR = 0, 1, 2

ERASE_LINE = b"\r\x1b[K"

prompts = RLock()
"""Held by the one prompt at the terminal, because ``readline`` allows no second one."""


@builtin_function
def input(prompt: object = "", /) -> str:
    """Read a line from the standard input. Parks: ``read fd 0``, until the first key or line. Source: ``input``."""
    if parking_waiter() is None or not at_terminal():
        return standard_input(prompt)
    with prompts:
        sys.stderr.flush()
        sys.stdout.flush()
        if "readline" in sys.modules and os.environ.get("TERM", "dumb") != "dumb":
            return edited_line(str(prompt))
        os.write(STDERR, encoded(str(prompt)))
        wait_until(STDIN, POLLIN)
        return standard_input()


def at_terminal() -> bool:
    """Return whether the interpreter would read from its terminal instead of calling ``sys.stdin.readline``."""
    try:
        fds = sys.stdin.fileno(), sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return fds == (STDIN, STDOUT) and os.isatty(STDIN) and os.isatty(STDOUT)


def encoded(text: str) -> bytes:
    """Return text as the terminal shows it."""
    return text.encode(sys.stdout.encoding, sys.stdout.errors or "strict")


def edited_line(prompt: str) -> str:
    """Return a line that ``readline`` edits, once its first key has come."""
    before, newline, last = prompt.rpartition("\n")
    # readline's marks of invisible characters.
    shown = last.replace("\x01", "").replace("\x02", "")
    os.write(STDOUT, encoded(before + newline + shown))
    with keys_passed_on():
        wait_until(STDIN, POLLIN)
    # readline prints the prompt itself.
    os.write(STDOUT, ERASE_LINE)
    return standard_input(last)


@contextmanager
def keys_passed_on() -> Iterator[None]:
    """Make the terminal pass on each key at once, without an echo."""
    import termios

    former: Any = termios.tcgetattr(STDIN)
    keys: Any = [*former]
    keys[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(STDIN, termios.TCSADRAIN, keys)
    try:
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, former)


def after_fork_in_child() -> None:
    """Discard the lock, which a dhaga of the parent may hold."""
    global prompts
    prompts = RLock()


originals.after_fork_in_child(after_fork_in_child)
