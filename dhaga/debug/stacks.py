"""Stacks: of a parked dhaga by its frame, of an OS thread that runs by what ``faulthandler`` writes of it.

``sys._current_frames`` is not used: it makes frame objects of what runs at that moment, and on Python 3.11 that is a
segmentation fault now and then.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple, TypeVar

KERNEL = ("dhaga.kernel", "dhaga.debug")
PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
ROOMS = tuple(f"{PACKAGE}{name.removeprefix('dhaga.')}{os.sep}" for name in KERNEL)
DEEPEST = 100
"""Frames of a stack that are kept, the innermost; ``faulthandler`` writes as many."""


class Frame(NamedTuple):
    """A place in the code that somebody is at, or has called from."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def of_dhaga(self) -> bool:
        """Tell whether this is in the package itself."""
        return self.file.startswith(PACKAGE)

    @property
    def source(self) -> str:
        """The line of code, empty where it is not to be had."""
        return linecache.getline(self.file, self.line).strip()


F = TypeVar("F")
Stack = tuple[Frame, ...]
"""The outermost call first, as in a traceback."""


def stack_of(frame: FrameType | None) -> Stack:
    """Return the stack that ends in a frame, without the kernel's own frames at either end."""
    frames = [each for _, each in zip(range(DEEPEST), _outwards(frame), strict=False)]
    return tuple(_place(each) for each in reversed(_without_kernel(frames, _of_kernel)))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _without_kernel(frames: list[F], of_kernel: Callable[[F], bool]) -> list[F]:
    """Leave out, at the inner and at the outer end, how a dhaga parks and how it is started."""
    inner, outer = 0, len(frames)
    while inner < outer and of_kernel(frames[inner]):
        inner += 1
    while outer > inner and of_kernel(frames[outer - 1]):
        outer -= 1
    return frames[inner:outer]


def _of_kernel(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(KERNEL)


def _place(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name)


def stacks_of_threads() -> dict[int, Stack]:
    """Return what each OS thread is at right now, by its ident, whatever it does.

    Without the kernel's own frames at either end. Parks: never; some 0.1 ms. From: any thread. Of more than a hundred
    threads the youngest hundred.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as text:
        faulthandler.dump_traceback(text, all_threads=True)
        text.seek(0)
        return dict(_threads_in(text.read()))


THREAD = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)[^\n]*\n((?:  .*\n?)*)", re.MULTILINE)
PLACE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def _threads_in(text: str) -> Iterator[tuple[int, Stack]]:
    for thread in THREAD.finditer(text):
        frames = [Frame(file, int(line), name) for file, line, name in PLACE.findall(thread[2])]
        outside = _without_kernel(frames, lambda frame: frame.file.startswith(ROOMS))
        yield int(thread[1], 16), tuple(reversed(outside or frames))
