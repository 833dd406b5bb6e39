"""Keys of a terminal, one by one, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import Iterator

import pytest

from dhaga._cli.keyboard import KeyReader, cbreak_keys


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (b"q/s", ["q", "/", "s"]),
        (b"\x1b[A\x1b[Bj\x1bOA", ["up", "down", "j", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page up", "page down", "home", "end"]),
        (b"\r\x7f\x1b", ["enter", "backspace", "escape"]),
        ("äß→".encode(), ["ä", "ß", "→"]),
        (b"\x1b[15~", ["unknown"]),
        (b"\xff\xff\xff\xff\xff", ["unknown"]),
    ],
)
def test_keys_are_named(typed: bytes, named: list[str]) -> None:
    here, there = os.pipe()
    pressed = KeyReader(here)
    os.write(there, typed)
    assert [pressed.wait(0) for _ in range(len(named) + 1)] == [*named, None]
    os.close(there)
    with pytest.raises(EOFError):
        pressed.wait(0)
    os.close(here)


def test_the_terminal_is_as_it_was_whatever_happens(terminal: tuple[int, int]) -> None:
    _, mine = terminal
    former = termios.tcgetattr(mine)
    with pytest.raises(ZeroDivisionError), cbreak_keys(mine):
        assert not termios.tcgetattr(mine)[3] & (termios.ECHO | termios.ICANON)
        assert termios.tcgetattr(mine)[3] & termios.ISIG
        assert termios.tcgetattr(mine)[6][termios.VSUSP] == b"\0"
        raise ZeroDivisionError
    assert termios.tcgetattr(mine) == former
