"""Loads the optional compiled parts, and reports for each part whether it runs in this process, or why not.

Python is the source of truth: a compiled part makes code faster and does not change its behavior. Pure Python does the
same work where the part was not built, cannot be imported, or is switched off. ``DHAGA_PURE=1`` switches off all parts.

``_frame_chunks.c``: CPython allocates frames in chunks of 16 KB. Each greenlet maps a chunk at its first call and
unmaps the chunk at its end. This part keeps up to ``CHUNKS`` chunks of each OS thread for later greenlets, which makes
spawn + join three times as fast. The part replaces the arena allocator of the whole process, so other greenlets and OS
threads also benefit. ``DHAGA_CHUNKS=0`` switches the part off; ``DHAGA_CHUNKS=N`` sets another cap.
``_fast_paths.c``: the common cases of the kernel and the primitives in C, see ``compiled.py``.
``DHAGA_FAST_PATHS=0`` switches this part off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from ..interpreter.guards import use_guards
from ..interpreter.requirements import FREE_THREADED

CHUNKS = 1024
"""The number of chunks that an OS thread keeps by default: 16 MB of address space, 4 MB of resident memory.

Measured with a program in which 1,000 dhagas park and end before the next 1,000 start. This program is 2.3 times as
fast with 1,024 chunks as with none. With 256 chunks, a quarter of this gain is left; with 4,096 chunks, the gain is as
large as with 1,024. With 10,000 dhagas at a time, the gain of 1,024 chunks is a third; with 16,384 chunks, which take
42 MB, the program is 1.8 times as fast.
"""


@dataclass(frozen=True, slots=True)
class FrameChunks:
    """Statistics of the frame chunks that this process keeps, in all its interpreters and OS threads."""

    kept: int  # the number of chunks kept now
    cap: int  # the maximum number of chunks kept for an OS thread
    hits: int  # the number of requests served by a kept chunk: for a new greenlet or OS thread, or a grown stack
    misses: int  # the number of requests served by a new chunk
    emptied: int  # the number of kept address ranges without memory, for the next misses
    in_front: bool  # False if another arena allocator was installed later, and might bypass this part


def frame_chunks() -> FrameChunks | None:
    """Return the statistics of the kept frame chunks; None if ``_frame_chunks`` does not run. From: any thread."""
    if not isinstance(chunks, ModuleType):
        return None
    in_front, kept, cap, hits, misses, emptied = chunks.figures()
    return FrameChunks(kept, cap, hits, misses, emptied, in_front)


def describe() -> str:
    """Return a line for users: ``compiled (fast paths, up to 1024 frame chunks kept)`` or ``pure Python (reason)``."""
    figures = frame_chunks()
    kept = f"up to {figures.cap} frame chunks kept" if figures is not None else ""
    if figures is not None and not figures.in_front:
        kept += ", behind another arena allocator"
    if isinstance(fast_paths, ModuleType):
        return f"compiled (fast paths{f', {kept}' if kept else f'; frame chunks: {chunks}'})"
    if kept:
        return f"compiled ({kept}; fast paths: {fast_paths})"
    return f"pure Python ({chunks if chunks == fast_paths else f'frame chunks: {chunks}; fast paths: {fast_paths}'})"


def start(environ: Mapping[str, str]) -> ModuleType | str:
    """Import and install the part that keeps frame chunks. Returns: the part, or the reason why it does not run.

    Raises: ValueError if ``DHAGA_CHUNKS`` is not a valid number of chunks.
    """
    cap = cap_of(environ.get("DHAGA_CHUNKS", ""))
    part = load("_frame_chunks", environ, "" if cap else "DHAGA_CHUNKS=0")
    if isinstance(part, ModuleType):
        part.install(cap)
    return part


def start_fast_paths(environ: Mapping[str, str]) -> ModuleType | str:
    """Import the fast paths. Returns: the part, or the reason why it does not run.

    Raises: ValueError if ``DHAGA_FAST_PATHS`` is neither 0 nor 1.
    """
    switch = environ.get("DHAGA_FAST_PATHS", "")
    if switch not in ("", "0", "1"):
        raise ValueError(f"DHAGA_FAST_PATHS={switch!r}: it takes 0, for Python only, or 1")
    part = load("_fast_paths", environ, "DHAGA_FAST_PATHS=0" if switch == "0" else "")
    if FREE_THREADED and isinstance(part, ModuleType):
        use_guards(part.Guard)
    return part


def load(name: str, environ: Mapping[str, str], switched_off: str) -> ModuleType | str:
    """Import a part. ``switched_off``: a reason not to import the part, or an empty string.

    Returns: the part, or the reason why it does not run.
    """
    if environ.get("DHAGA_PURE", "0") not in ("", "0"):
        return "DHAGA_PURE is set"
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}"
    if switched_off:
        return switched_off
    try:
        return import_module(f".{name}", __package__)
    except ModuleNotFoundError:
        return "not built: that needs a C compiler at the install of dhaga"
    except (ImportError, AttributeError) as error:  # for example, built for another machine or another greenlet
        return f"not usable: {error}"


def cap_of(text: str) -> int:
    """Return the number of chunks that ``DHAGA_CHUNKS`` sets; by default ``CHUNKS``."""
    if not text:
        return CHUNKS
    if not (text.isascii() and text.isdigit()) or int(text) > MOST:
        raise ValueError(
            f"DHAGA_CHUNKS={text!r}: it takes how many 16 KB frame chunks to keep, 0 to {MOST}; 0 for none"
        )
    return int(text)


MOST = 1_000_000
"""The highest cap: 16 GB of chunks. A higher number is probably a typo."""

chunks = start(os.environ)
fast_paths = start_fast_paths(os.environ)
