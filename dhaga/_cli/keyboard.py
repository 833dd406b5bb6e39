"""Reads a terminal key by key (cbreak mode), and restores the terminal's previous mode at the end."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Iterator

from .._kernel.context_manager import contextmanager

ESCAPE_SECONDS = 0.05
"""Number of seconds to wait for the rest of an escape sequence. If nothing follows, the key is the escape key."""

KEY_NAMES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down",
    b"\x1b[5~": "page up", b"\x1b[6~": "page down",
    b"\x1b[H": "home", b"\x1b[1~": "home", b"\x1b[F": "end", b"\x1b[4~": "end",
    b"\x1b": "escape", b"\r": "enter", b"\n": "enter", b"\x7f": "backspace", b"\b": "backspace", b"\x04": "q",
}  # fmt: skip


class KeyReader:
    """Reads keys from a terminal. ``pending`` contains the bytes that are read but not yet returned as keys."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.pending = b""

    def wait(self, seconds: float) -> str | None:
        """Return the next key as a name or a character; return None if no key is pressed within ``seconds``.

        Raises: EOFError if the terminal is gone.
        """
        if not self.pending and not self.receive(seconds):
            return None
        if self.pending == b"\x1b":
            self.receive(ESCAPE_SECONDS)
        return self.next_key()

    def receive(self, seconds: float) -> bool:
        ready, _, _ = select.select([self.file], [], [], max(0.0, seconds))
        if not ready:
            return False
        try:
            more = os.read(self.file, 1024)
        except OSError:  # the terminal has hung up
            more = b""
        if not more:
            raise EOFError
        self.pending += more
        return True

    def next_key(self) -> str:
        """Remove the first key from the pending bytes and return it."""
        for sequence in sorted(KEY_NAMES, key=len, reverse=True):
            if self.pending.startswith(sequence) and (
                len(sequence) > 1 or sequence != b"\x1b" or len(self.pending) == 1
            ):
                self.pending = self.pending[len(sequence) :]
                return KEY_NAMES[sequence]
        if self.pending.startswith(b"\x1b"):  # an unknown function key: drop the whole sequence
            self.pending = b""
            return "unknown"
        return self.next_character()

    def next_character(self) -> str:
        for length in range(1, 5):  # a UTF-8 character has up to 4 bytes
            try:
                character = self.pending[:length].decode()
            except UnicodeDecodeError:
                continue
            self.pending = self.pending[length:]
            return character
        self.pending = b""
        return "unknown"


@contextmanager
def cbreak_keys(file: int) -> Iterator[KeyReader]:
    """Run a block with a terminal in cbreak mode: no echo, no line buffering. Ctrl-C interrupts; Ctrl-Z is a key."""
    saved = termios.tcgetattr(file)
    try:
        tty.setcbreak(file, termios.TCSANOW)
        attributes = termios.tcgetattr(file)
        # Ctrl-Z is disabled, because a stopped process would leave the terminal in cbreak mode.
        attributes[6][termios.VSUSP] = bytes([os.fpathconf(file, "PC_VDISABLE")])
        termios.tcsetattr(file, termios.TCSANOW, attributes)
        yield KeyReader(file)
    finally:
        termios.tcsetattr(file, termios.TCSANOW, saved)
