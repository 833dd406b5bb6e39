"""Stacks. A parked dhaga's stack is read from its frames, a running OS thread's stack from ``faulthandler``'s output.

This module does not use ``sys._current_frames``, because that function makes frame objects of running code. On Python
3.11 this sometimes causes a segmentation fault.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import re
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NamedTuple, TypeVar

# Packages whose frames are left out at both ends of a stack; ``hide_package`` adds a package.
hidden_packages: tuple[str, ...] = ("dhaga._kernel",)
PACKAGE = f"{os.path.dirname(os.path.dirname(__file__))}{os.sep}"
# Files that run a program. Their frames are left out at the outer end of a stack.
RUNNERS = ("<frozen runpy>", f"{PACKAGE}__main__.py", f"{PACKAGE}_cli{os.sep}")
# The highest number of frames in a stack: of a longer stack only the innermost are kept, as in ``faulthandler``.
MAX_FRAMES = 100


class Frame(NamedTuple):
    """A place in the code: a line of a stack."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"

    @property
    def of_dhaga(self) -> bool:
        """Whether this place is in the package ``dhaga``."""
        return self.file.startswith(PACKAGE)

    @property
    def source(self) -> str:
        """The line of code; empty where the source is missing."""
        return source_of(self.file, self.line)


def source_of(file: str, line: int) -> str:
    """Return a line of code without its indentation; empty where the source is missing."""
    return linecache.getline(file, line).strip()


F = TypeVar("F")
# The frames of a stack. The outermost call is first, as in a traceback.
Stack = tuple[Frame, ...]


def hide_package(package: str) -> None:
    """Leave the frames of another package out of all stacks from now on."""
    global hidden_packages
    hidden_packages = (*hidden_packages, package)


def stack_of(frame: FrameType | None) -> Stack:
    """Return the stack that ends in a frame, without the kernel's frames at either end and without frames of
    ``RUNNERS`` at the outer end.
    """
    frames = [each for _, each in zip(range(MAX_FRAMES), _outwards(frame), strict=False)]
    return tuple(_frame_at(each) for each in reversed(_without_kernel(frames, _of_kernel, _of_runner)))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _without_kernel(frames: list[F], of_kernel: Callable[[F], bool], of_runner: Callable[[F], bool]) -> list[F]:
    """Leave out frames at both ends of the stack: a dhaga's park, its start, and the frames that run the program."""
    inner, outer = 0, len(frames)
    while inner < outer and of_kernel(frames[inner]):
        inner += 1
    while outer > inner and (of_kernel(frames[outer - 1]) or of_runner(frames[outer - 1])):
        outer -= 1
    return frames[inner:outer]


def _of_kernel(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(hidden_packages)


def _of_runner(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(RUNNERS)


def _frame_at(frame: FrameType) -> Frame:
    return Frame(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name)


def stacks_of_threads() -> dict[int, Stack]:
    """Return each OS thread's current stack, by the thread's ident, without frames of the kernel at either end.

    Parks: never; the call takes about 0.1 ms. From: any thread. If there are more than a hundred threads, only the
    youngest hundred are listed.
    """
    # This import takes 5 ms, and few programs ask for the stacks of threads.
    import tempfile

    with tempfile.TemporaryFile("w+", errors="replace") as text:
        faulthandler.dump_traceback(text, all_threads=True)
        text.seek(0)
        return dict(_threads_in(text.read()))


THREAD_BLOCK = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+)[^\n]*\n((?:  .*\n?)*)", re.MULTILINE)
FRAME_LINE = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


def _threads_in(text: str) -> Iterator[tuple[int, Stack]]:
    folders = tuple(f"{PACKAGE}{name.removeprefix('dhaga.')}{os.sep}" for name in hidden_packages)
    for thread in THREAD_BLOCK.finditer(text):
        frames = [Frame(file, int(line), name) for file, line, name in FRAME_LINE.findall(thread[2])]
        # A stack that has only kernel frames is kept whole, because an empty stack would give no information.
        outside = _without_kernel(
            frames, lambda frame: frame.file.startswith(folders), lambda frame: frame.file.startswith(RUNNERS)
        )
        yield int(thread[1], 16), tuple(reversed(outside or frames))
