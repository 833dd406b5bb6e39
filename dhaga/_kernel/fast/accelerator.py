"""The compiled parts, each optional: which of them run in this process, why others do not, and their figures.

Python is the source of truth. A compiled part makes something faster and changes no behaviour; where it was not built,
cannot be imported, or is switched off (``DHAGA_PURE=1``: all of them), the same happens in pure Python.

``_frame_chunks.c``: CPython's frames live in chunks of 16 KB. Each greenlet has a chunk mapped at its first call and
unmapped at its end. The part keeps up to ``CHUNKS`` chunks of each OS thread for its next greenlets, so spawn + join is
three times as fast. The arena allocator of the whole process is replaced, so other greenlets and OS threads also gain.
``DHAGA_CHUNKS=0`` switches the part off; ``DHAGA_CHUNKS=N`` sets another cap.
``_fast_paths.c``: the shortest ways through the kernel and the primitives, see ``compiled.py``; ``DHAGA_FAST_PATHS=0``.
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
"""The number of chunks an OS thread keeps, unless ``DHAGA_CHUNKS`` says otherwise: 16 MB of addresses, 4 MB resident.

If 1,000 dhagas park, end, and 1,000 more follow, 1,024 chunks make this 2.3 times as fast; 256 gain a quarter of that,
4,096 no more. For 10,000 at once, 1,024 chunks gain a third; 16,384 make it 1.8 times as fast and take 42 MB.
"""


@dataclass(frozen=True, slots=True)
class FrameChunks:
    """The figures of the kept frame chunks of this process, all interpreters and OS threads together."""

    kept: int  # now
    cap: int  # of an OS thread
    hits: int  # requests for a chunk that a kept one served: a greenlet or OS thread began, or a stack grew
    misses: int  # requests that took a new one
    emptied: int  # addresses without memory, kept for the next misses
    in_front: bool  # no other arena allocator was installed later; it might not pass on to this one


def frame_chunks() -> FrameChunks | None:
    """Return the figures of the kept frame chunks; None where that part does not run. From: any thread."""
    if not isinstance(chunks, ModuleType):
        return None
    in_front, kept, cap, hits, misses, emptied = chunks.figures()
    return FrameChunks(kept, cap, hits, misses, emptied, in_front)


def describe() -> str:
    """Return one line for users: ``compiled (fast paths, up to 1024 frame chunks kept)`` or ``pure Python (why)``."""
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
    """Import and install the frame chunks, if environment and build allow. Returns: the part, or why it does not run.

    Raises: ValueError for a ``DHAGA_CHUNKS`` that is no number of chunks.
    """
    cap = cap_of(environ.get("DHAGA_CHUNKS", ""))
    part = load("_frame_chunks", environ, "" if cap else "DHAGA_CHUNKS=0")
    if isinstance(part, ModuleType):
        part.install(cap)
    return part


def start_fast_paths(environ: Mapping[str, str]) -> ModuleType | str:
    """Import the fast paths. Returns: the part, or why it does not run. Raises: ValueError for another switch."""
    switch = environ.get("DHAGA_FAST_PATHS", "")
    if switch not in ("", "0", "1"):
        raise ValueError(f"DHAGA_FAST_PATHS={switch!r}: it takes 0, for Python only, or 1")
    part = load("_fast_paths", environ, "DHAGA_FAST_PATHS=0" if switch == "0" else "")
    if FREE_THREADED and isinstance(part, ModuleType):
        use_guards(part.Guard)
    return part


def load(name: str, environ: Mapping[str, str], switched_off: str) -> ModuleType | str:
    """Import a part. ``switched_off``: the reason not to, if any. Returns: the part, or why it does not run."""
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
    """Return how many chunks ``DHAGA_CHUNKS`` asks for."""
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
