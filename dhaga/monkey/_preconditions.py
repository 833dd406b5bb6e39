"""Preconditions of a patch: imports and thread starts that must come after it, because it cannot change their results.

``import threading`` may come before the patch, and so may ``from threading import Lock`` (``_rebind.py``). Two things
may not. A class derived from a replaced one keeps its base. A running OS thread holds and waits for standard locks,
which the patch would replace under it; threads of schedulers, helper threads of Dhaga and debuggers' threads are
exempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

from .._kernel import originals
from .._kernel.errors import PatchError
from .._kernel.run.attachment import schedulers
from .._kernel.wait.deadlock import frames_of_threads
from ._real_threads import is_real
from ._rebind import Replacement, is_standard, package_of

BELOW_PATCH = ("dhaga", "greenlet", "tornado")
"""Packages whose classes and threads the patch itself needs."""

SUBCLASSES_WORK = ("queue",)
"""Standard modules whose subclasses also work after the patch: their methods look up the locks at each use."""


def refuse_late(replacements: Iterable[Replacement], known: Iterable[str] = ()) -> None:
    """Raise PatchError if the patch should have come before an OS thread or a subclass.

    ``known``: packages whose subclasses are harmless.
    """
    complaints = [*threads(), *subclasses_made_too_early(replacements, known)]
    if complaints:
        raise PatchError(
            "dhaga.monkey.patch() comes too late; call it before " + ", and before ".join(complaints) + ". "
            "Programs run by `python -m dhaga` are patched before their first line"
        )


# ---- derived classes


def subclasses_made_too_early(replacements: Iterable[Replacement], known: Iterable[str] = ()) -> Iterator[str]:
    """Yield the imports that must come after the patch, each with one of its subclasses."""
    reported = set(known)
    for module, name, subclass in early_subclasses(replacements):
        package = package_of(subclass.__module__)
        if package not in reported:
            reported.add(package)
            yield place_of(package) + f", as {full_name(subclass)} is derived from {module.__name__}.{name}"


def early_subclasses(replacements: Iterable[Replacement]) -> Iterator[tuple[Any, str, type]]:
    """Yield the classes that a patch leaves, but whose base class it replaces."""
    for module, name, _, standard in replacements:
        if isinstance(standard, type) and module.__name__ not in SUBCLASSES_WORK:
            for subclass in foreign_subclasses(standard):
                if not is_real(subclass.__module__):
                    yield module, name, subclass


def early_packages(replacements: Iterable[Replacement]) -> set[str]:
    """Return the packages of these classes."""
    return {package_of(subclass.__module__) for _, _, subclass in early_subclasses(replacements)}


def place_of(package: str) -> str:
    return "the classes of the program" if package == "__main__" else f"`import {package}`"


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def foreign_subclasses(kind: type) -> Iterator[type]:
    """Yield the subclasses of a class that are neither standard nor ours; not their own subclasses."""
    children: list[type] = type.__subclasses__(kind)
    for subclass in children:
        if package_of(subclass.__module__) in BELOW_PATCH:
            continue
        if is_standard(subclass.__module__):
            yield from foreign_subclasses(subclass)
        else:
            yield subclass


# ---- OS threads


def threads() -> Iterator[str]:
    """Yield the starts of OS threads that must come after the patch."""
    main = originals.main_thread().ident
    if originals.get_ident() != main:
        yield f"the start of the OS thread {originals.current_thread().name!r}, in which it was called"
    known = {thread.ident: thread for thread in originals.enumerate_threads()}
    for ident, frame in frames_of_threads().items():
        if ident not in (originals.get_ident(), main) and not is_exempt(ident, known.get(ident), frame):
            yield description(known.get(ident), frame)


def is_exempt(ident: int, thread: Any, frame: FrameType) -> bool:
    """Return whether a thread is a scheduler's, a helper of Dhaga's, or a debugger's."""
    if any(scheduler.thread_ident == ident for scheduler in list(schedulers)):
        return True
    if thread is None:  # unknown to threading, such as the preemption watcher
        return package_of(str(from_outermost(frame)[0].f_globals.get("__name__", ""))) in BELOW_PATCH
    return package_of(type(thread).__module__) in BELOW_PATCH or hasattr(thread, "pydev_do_not_trace")


def description(thread: Any, frame: FrameType) -> str:
    """Describe a thread by its name, its function, and where that is written."""
    name = "an OS thread" if thread is None else f"the OS thread {thread.name!r}"
    first = [it for it in from_outermost(frame) if it.f_globals.get("__name__") != "threading"]
    if not first:
        return f"the start of {name}"
    module = first[0].f_globals.get("__name__", first[0].f_code.co_filename)
    code = first[0].f_code
    place = f"{code.co_filename}:{code.co_firstlineno}"
    return f"the start of {name}, which runs {module}.{code.co_qualname} ({place})"


def from_outermost(frame: FrameType | None) -> list[FrameType]:
    frames: list[FrameType] = []
    while frame is not None:
        frames.insert(0, frame)
        frame = frame.f_back
    return frames
