"""Keys: a terminal that gives each key as it is pressed, and is as it was before in the end."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE_SECONDS = 0.05
"""After an escape, what belongs to it (an arrow) comes at once; else it is the escape key."""

NAMES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down",
    b"\x1b[H": "home", b"\x1b[1~": "home", b"\x1b[F": "end", b"\x1b[4~": "end",
    b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\b": "backspace", b"\x04": "q",
}  # fmt: skip


class Keys:
    """Keys that are pressed at a terminal."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.came = b""

    def wait(self, seconds: float) -> str | None:
        """Return the next key, by its name or as the character that it is; None if none is pressed meanwhile.

        Raises: EOFError when the terminal is gone.
        """
        if not self.came and not self.receive(seconds):
            return None
        if self.came == b"\x1b":
            self.receive(ESCAPE_SECONDS)
        return self.take()

    def receive(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.file], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            more = os.read(self.file, 1024)
        except OSError:  # it has hung up
            more = b""
        if not more:
            raise EOFError("the terminal is gone")
        self.came += more
        return True

    def take(self) -> str:
        """Take the first key off what has come."""
        for sequence in sorted(NAMES, key=len, reverse=True):
            if self.came.startswith(sequence) and (len(sequence) > 1 or sequence != b"\x1b" or len(self.came) == 1):
                self.came = self.came[len(sequence) :]
                return NAMES[sequence]
        if self.came.startswith(b"\x1b"):  # some other function key: all of it
            self.came = b""
            return "unknown"
        return self.take_character()

    def take_character(self) -> str:
        for length in range(1, 5):  # of UTF-8
            try:
                character = self.came[:length].decode()
            except UnicodeDecodeError:
                continue
            self.came = self.came[length:]
            return character
        self.came = b""
        return "unknown"


@contextmanager
def keys(file: int) -> Iterator[Keys]:
    """Have a terminal give each key at once and show none, within the block; Ctrl-C interrupts, Ctrl-Z is a key."""
    former = termios.tcgetattr(file)
    try:
        tty.setcbreak(file, termios.TCSANOW)
        attributes = termios.tcgetattr(file)
        attributes[6][termios.VSUSP] = bytes([os.fpathconf(file, "PC_VDISABLE")])  # stopped, it would leave it so
        termios.tcsetattr(file, termios.TCSANOW, attributes)
        yield Keys(file)
    finally:
        termios.tcsetattr(file, termios.TCSANOW, former)
