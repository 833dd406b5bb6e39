"""The compiled parts, each optional: which of them run in this process, why others do not, and their figures.

Python is the source of truth. A compiled part makes something faster and changes no behaviour; where it was not built,
cannot be imported, or is switched off (``DHAGA_PURE=1``: all of them), the same happens in pure Python.

The one part so far is ``_frame_chunks.c``. CPython's frames live in chunks of 16 KB, and each greenlet has one mapped
at its first call and unmapped at its end; the part keeps up to ``CHUNKS`` ended ones for the next greenlets, which
makes spawn + join three times as fast. It replaces the arena allocator of the whole process, so other greenlets and
OS threads gain, too, and it can be switched off by itself: ``DHAGA_CHUNKS=0``, or another cap, ``DHAGA_CHUNKS=N``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

CHUNKS = 1024
"""How many chunks are kept unless ``DHAGA_CHUNKS`` says otherwise: 16 MB of addresses, 4 MB of resident memory.

Where 1,000 dhagas are parked at once, end, and 1,000 more follow, 1,024 chunks make that 2.3 times as fast; 256 bring
a quarter, 4,096 no more. For 10,000 at once 1,024 bring a quarter, 16,384 a factor of 1.8 and 42 MB.
"""


@dataclass(frozen=True, slots=True)
class FrameChunks:
    """The figures of the kept frame chunks of this process, all interpreters together."""

    kept: int  # now
    cap: int
    hits: int  # requests for a chunk that a kept one served: a greenlet or OS thread began, or a stack grew
    misses: int  # requests that took a new one
    in_front: bool  # no other arena allocator was installed later; it might not pass on to this one


def frame_chunks() -> FrameChunks | None:
    """Return the figures of the kept frame chunks; None where that part does not run. From: any thread."""
    if not isinstance(chunks, ModuleType):
        return None
    in_front, kept, cap, hits, misses = chunks.figures()
    return FrameChunks(kept, cap, hits, misses, in_front)


def describe() -> str:
    """Say in a line what runs, for people: ``compiled (up to 1024 frame chunks kept)`` or ``pure Python (why)``."""
    figures = frame_chunks()
    if figures is None:
        return f"pure Python ({chunks})"
    behind = "" if figures.in_front else ", behind another arena allocator"
    return f"compiled (up to {figures.cap} frame chunks kept{behind})"


def start(environ: Mapping[str, str]) -> ModuleType | str:
    """Import and install what the environment and the build allow. Returns: the part, or why it does not run.

    Raises: ValueError for a ``DHAGA_CHUNKS`` that is no number of chunks.
    """
    cap = cap_of(environ.get("DHAGA_CHUNKS", ""))
    if environ.get("DHAGA_PURE", "0") not in ("", "0"):
        return "DHAGA_PURE is set"
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}"
    if "t" in getattr(sys, "abiflags", ""):
        return "this is a free-threaded build"
    if not cap:
        return "DHAGA_CHUNKS=0"
    try:
        _frame_chunks = import_module("._frame_chunks", __package__)
    except ModuleNotFoundError:
        return "not built: that takes a C compiler when dhaga is installed"
    except ImportError as error:  # built for another machine, say
        return f"not usable: {error}"
    _frame_chunks.install(cap)
    return _frame_chunks


def cap_of(text: str) -> int:
    """Return how many chunks ``DHAGA_CHUNKS`` asks for."""
    if not text:
        return CHUNKS
    if not (text.isascii() and text.isdigit()) or int(text) > MOST:
        raise ValueError(
            f"DHAGA_CHUNKS={text!r}: it takes how many 16 KB frame chunks to keep, 0 to {MOST}; 0 for none"
        )
    return int(text)


MOST = 1_000_000
"""The highest cap: 16 GB, above which a typo is likelier than a wish."""

chunks = start(os.environ)
