"""``input()`` at a terminal: the caller parks until there is input, and then the interpreter reads the line.

Without the module ``readline``, the terminal itself edits the line, so the input is a complete line. With
``readline``, the terminal is set to deliver single keys while the caller is parked. The first key ends the park, and is
the first key that ``readline`` gets. While ``readline`` edits the line, its C code blocks the OS thread.

Rejected: reading in an OS thread, because no cancel or Ctrl-C could end that read, which would consume the next line.
Rejected: parking in a hook of ``readline``, which swallows errors of hooks.
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
"""Lock that is held during each prompt at the terminal, because ``readline`` allows only one at a time."""


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
    """Return whether the standard ``input`` would read from the terminal and not call ``sys.stdin.readline``."""
    try:
        fds = sys.stdin.fileno(), sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return False
    return fds == (STDIN, STDOUT) and os.isatty(STDIN) and os.isatty(STDOUT)


def encoded(text: str) -> bytes:
    """Return text in the encoding of the standard output."""
    return text.encode(sys.stdout.encoding, sys.stdout.errors or "strict")


def edited_line(prompt: str) -> str:
    """Wait for the first key, then return the line that ``readline`` edits."""
    before, newline, last = prompt.rpartition("\n")
    # Remove readline's markers of invisible characters.
    shown = last.replace("\x01", "").replace("\x02", "")
    os.write(STDOUT, encoded(before + newline + shown))
    with keys_passed_on():
        wait_until(STDIN, POLLIN)
    # readline prints the prompt again.
    os.write(STDOUT, ERASE_LINE)
    return standard_input(last)


@contextmanager
def keys_passed_on() -> Iterator[None]:
    """Set the terminal to deliver each key at once, without an echo, during a ``with`` block."""
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
    """Replace the lock, which a dhaga of the parent may hold."""
    global prompts
    prompts = RLock()


originals.after_fork_in_child(after_fork_in_child)
