"""Draws docs/_static/top.svg: what `python -m dhaga top` really prints of a small program, as a picture.

Run it after a change to `top`: `python docs/_ext/top_picture.py`. No build does, as its figures differ each time.
"""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "_static" / "top.svg"
COLUMNS, ROWS = 88, 16
ADVANCE, LINE, MARGIN, BAR = 8.4, 19, 16, 30
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
INK, PAPER, FRAME = "#e6e1da", "#191715", "#3a3530"

PROGRAM = """
import dhaga
from dhaga import queue, socket, threading

orders, stock = queue.Queue(), threading.Lock()
ours, theirs = socket.socketpair()

def compute():
    while True:
        sum(range(200_000))
        dhaga.sleep(0.01)

def sell():
    while True:
        with stock:
            dhaga.sleep(0.05)

dhaga.spawn(compute, name="GET /report")
for number in range(4):
    dhaga.spawn(sell, name=f"POST /orders/{41 + number}")
for number in range(3):
    dhaga.spawn(orders.get, name=f"mailer-{number}")
dhaga.spawn(ours.recv, 100, name="GET /events")
dhaga.spawn(dhaga.sleep, 3600, name="nightly")
print("ready", flush=True)
dhaga.sleep(60)
"""
"""A shop with something of everything: a dhaga that computes, a contended lock, an empty queue, a quiet client."""


def printed(*command: str) -> str:
    """Return what a command prints on a terminal of this size."""
    master, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, env=environment) as process:
        os.close(terminal)
        parts = []
        try:
            while part := os.read(master, 65536):
                parts.append(part)
        except OSError:  # the end, on Linux
            pass
    os.close(master)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, b"".join(parts))
    return b"".join(parts).decode().replace("\r", "")


def look() -> list[str]:
    """Start the program, and return the lines that top prints of it."""
    environment = {**os.environ, "DHAGA_DEBUG": "1"}
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            shown = printed(sys.executable, "-m", "dhaga", "top", str(process.pid), "--once", "--rows", str(ROWS))
        finally:
            process.kill()
    return ["$ python -m dhaga top 4711", *shown.replace(str(process.pid), "4711").rstrip().splitlines()[:ROWS]]


def rgb(color: Color | None) -> str:
    return INK if color is None or color.is_default else color.get_truecolor(DIMMED_MONOKAI).hex


def runs(line: str) -> Iterator[tuple[int, str, Style]]:
    """Give the pieces of a line that look alike, each with its column."""
    text = Text.from_ansi(line)
    column = 0
    for piece in text.divide(sorted({end for span in text.spans for end in (span.start, span.end)})):
        style = piece.spans[0].style if piece.spans else Style.null()
        yield column, piece.plain, style if isinstance(style, Style) else Style.parse(style)
        column += len(piece.plain)


def words(text: str) -> Iterator[tuple[int, str]]:
    """Give what stands in the columns of a table, each with its place: readers of SVG fold spaces."""
    return ((found.start(), found[0]) for found in re.finditer(r"\S+(?: \S+)*", text))


def elements(lines: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        y = BAR + MARGIN + LINE * number + 8
        for column, text, style in runs(line):
            look = f' fill="{rgb(style.color)}"' + (' font-weight="bold"' if style.bold else "")
            for place, word in words(text):
                x, length = MARGIN + ADVANCE * (column + place), ADVANCE * len(word)
                yield f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{look}>{escape(word)}</text>'


def picture(lines: list[str]) -> str:
    """Return the lines as SVG, in the frame of a terminal."""
    width = round(2 * MARGIN + ADVANCE * COLUMNS)
    height = BAR + 2 * MARGIN + LINE * len(lines)
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * n}" cy="16" r="5" fill="{FRAME}"/>' for n in range(3))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            "<title>python -m dhaga top: each dhaga, its shares of time and CPU, and what it waits for</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}" stroke="{FRAME}"/>{dots}',
            f'<g font-family="{FONTS}" font-size="14">',
            *elements(lines),
            "</g></svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(look()))
