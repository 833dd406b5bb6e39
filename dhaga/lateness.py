"""Lateness: what a patch could not mend any more, and which import, or start, is to come after it.

A module that did ``import threading`` is served, whenever it was imported, and so is one that did ``from threading
import Lock`` (``changes.py``). A class derived from a replaced one is not: its base is what it was. Nor is what other
OS threads have in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from .changes import Replacement, is_standard, package_of
from .kernel import originals
from .kernel.deadlock import frames_of_threads
from .kernel.errors import PatchError
from .kernel.scheduler import schedulers

BELOW = ("dhaga", "greenlet", "tornado")
"""Packages whose classes and threads are below the patch."""

DERIVED_IS_FINE = ("queue",)
"""Standard modules whose classes go on to work after the patch: their methods look the locks up when they need them."""


def refuse_late(replacements: Iterable[Replacement]) -> None:
    """Raise PatchError if an OS thread, or a derived class, is there that the patch would have to come before."""
    complaints = [*threads(), *heirs(replacements)]
    if complaints:
        raise PatchError(
            "dhaga.monkey.patch() comes too late; let it be called before " + ", and before ".join(complaints) + ". "
            "Programs run by `python -m dhaga` are patched before their first line"
        )


# ---- derived classes


def heirs(replacements: Iterable[Replacement]) -> Iterator[str]:
    """Give the imports that are to come later, with one class of each."""
    told = set()
    for module, name, _, standard in replacements:
        if isinstance(standard, type) and module.__name__ not in DERIVED_IS_FINE:
            for heir in foreign_heirs(standard):
                package = package_of(heir.__module__)
                if package not in told:
                    told.add(package)
                    yield place_of(package) + f", as {full_name(heir)} is derived from {module.__name__}.{name}"


def place_of(package: str) -> str:
    return "the classes of the program" if package == "__main__" else f"`import {package}`"


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def foreign_heirs(kind: type) -> Iterator[type]:
    """Give the classes derived from one that are neither standard nor ours, without those derived from them."""
    children: list[type] = type.__subclasses__(kind)
    for heir in children:
        if package_of(heir.__module__) in BELOW:
            continue
        if is_standard(heir.__module__):
            yield from foreign_heirs(heir)
        else:
            yield heir


# ---- OS threads


def threads() -> Iterator[str]:
    """Give the starts of OS threads that are to come later."""
    main = originals.main_thread().ident
    if originals.get_ident() != main:
        yield f"the start of the OS thread {originals.current_thread().name!r}, in which it was called"
    known = {thread.ident: thread for thread in originals.enumerate_threads()}
    for ident, frame in frames_of_threads().items():
        if ident not in (originals.get_ident(), main) and not is_helper(ident, known.get(ident)):
            yield description(known.get(ident), frame)


def is_helper(ident: int, thread: Any) -> bool:
    """Tell whether a thread is a scheduler's, serves us, or is a debugger's."""
    if any(scheduler.ident == ident for scheduler in list(schedulers)):
        return True
    return package_of(type(thread).__module__) in BELOW or hasattr(thread, "pydev_do_not_trace")


def description(thread: Any, frame: FrameType) -> str:
    """Name a thread, and what it was started for."""
    name = "an OS thread" if thread is None else f"the OS thread {thread.name!r}"
    first = [it for it in from_outermost(frame) if it.f_globals.get("__name__") != "threading"]
    if not first:
        return f"the start of {name}"
    module = first[0].f_globals.get("__name__", first[0].f_code.co_filename)
    return f"the start of {name}, which runs {module}.{first[0].f_code.co_qualname}"


def from_outermost(frame: FrameType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None:
        frames.insert(0, frame)
        frame = frame.f_back
    return frames
