"""Preconditions of a patch: it must precede the creation of classes and threads that it cannot change.

``import threading`` and ``from threading import Lock`` may come before the patch (``_rebind.py``). Subclasses and OS
threads may not. A class derived from a replaced class would keep its base. A running OS thread may hold or wait for
standard locks while the patch replaces them. Threads of schedulers, of Dhaga and of debuggers are exempt.
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
"""Standard modules whose classes may be subclassed before the patch, because each new instance looks up its lock class.
"""


def refuse_late(replacements: Iterable[Replacement], known: Iterable[str] = ()) -> None:
    """Raise PatchError if an OS thread or a subclass exists that must come after the patch.

    ``known``: packages whose early subclasses of replaced classes do no harm.
    """
    complaints = [*threads(), *subclasses_made_too_early(replacements, known)]
    if complaints:
        raise PatchError(
            "dhaga.monkey.patch() comes too late; call it before " + ", and before ".join(complaints) + ". "
            "Programs run by `python -m dhaga` are patched before their first line"
        )


# ---- derived classes


def subclasses_made_too_early(replacements: Iterable[Replacement], known: Iterable[str] = ()) -> Iterator[str]:
    """Yield a text about each import that must come after the patch. The text names a class of the imported package."""
    reported = set(known)
    for module, name, subclass in early_subclasses(replacements):
        package = package_of(subclass.__module__)
        if package not in reported:
            reported.add(package)
            yield place_of(package) + f", as {full_name(subclass)} is derived from {module.__name__}.{name}"


def early_subclasses(replacements: Iterable[Replacement]) -> Iterator[tuple[Any, str, type]]:
    """Yield each class that would keep its unpatched base, with the module and the name of this base."""
    for module, name, _, standard in replacements:
        if isinstance(standard, type) and module.__name__ not in SUBCLASSES_WORK:
            for subclass in foreign_subclasses(standard):
                if not is_real(subclass.__module__):
                    yield module, name, subclass


def early_packages(replacements: Iterable[Replacement]) -> set[str]:
    """Return the packages of ``early_subclasses``."""
    return {package_of(subclass.__module__) for _, _, subclass in early_subclasses(replacements)}


def place_of(package: str) -> str:
    return "the classes of the program" if package == "__main__" else f"`import {package}`"


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def foreign_subclasses(kind: type) -> Iterator[type]:
    """Yield the subclasses of a class and of its standard subclasses. Skip the standard classes themselves, and the
    classes of ``BELOW_PATCH``.
    """
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
    """Yield a text about each start of an OS thread that must come after the patch."""
    main = originals.main_thread().ident
    if originals.get_ident() != main:
        yield f"the start of the OS thread {originals.current_thread().name!r}, in which it was called"
    known = {thread.ident: thread for thread in originals.enumerate_threads()}
    for ident, frame in frames_of_threads().items():
        if ident not in (originals.get_ident(), main) and not is_exempt(ident, known.get(ident), frame):
            yield description(known.get(ident), frame)


def is_exempt(ident: int, thread: Any, frame: FrameType) -> bool:
    """Return whether a thread belongs to a scheduler, to a package of ``BELOW_PATCH``, or to a debugger."""
    if any(scheduler.thread_ident == ident for scheduler in list(schedulers)):
        return True
    if thread is None:  # a thread that threading does not know, such as the preemption watcher
        return package_of(str(from_outermost(frame)[0].f_globals.get("__name__", ""))) in BELOW_PATCH
    return package_of(type(thread).__module__) in BELOW_PATCH or hasattr(thread, "pydev_do_not_trace")


def description(thread: Any, frame: FrameType) -> str:
    """Describe a thread with its name, its function, and the function's file and line."""
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
