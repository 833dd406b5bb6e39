"""Exempts modules such as profilers and watchdogs from the patch, because their threads must stay OS threads.

A sampling profiler sleeps in a thread of its own, and samples the program from there. If that thread were a dhaga, it
would run only while no other dhaga of its OS thread runs, and sample only itself. A thread that runs an event loop in
C, such as libev, would never park. In modules with such threads, ``threading.Thread``, ``Timer``, ``time.sleep`` and
the functions of ``_thread`` that start threads are the standard objects. Locks, queues and sockets are Dhaga's: they
work in OS threads, and a dhaga that waits for an OS thread parks. In these modules, ``sys._current_frames`` lists a
running dhaga under the dhaga's ident.

``import threading`` in such a module returns a view of the standard module, because the importing module's
``__builtins__`` contains another ``__import__``. A module that was imported before the patch keeps its
``__builtins__``. Instead, the patch sets the names that such a module has imported.
"""

from __future__ import annotations

import builtins
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pkgutil import iter_modules
from types import FrameType, ModuleType
from typing import Any

from .._kernel.faces.similar_names import most_similar
from .._kernel.run.attachment import schedulers
from .._kernel.run.idents import ident_of
from .._kernel.run.microthread import RUNNING, Dhaga
from .._kernel.wait.deadlock import frames_of_threads
from ._rebind import PatchLog, Replacement, bindings, python_modules

__all__ = [
    "BUILT_IN",
    "VARIABLE",
    "activate",
    "deactivate",
    "is_real",
    "named",
    "prepare",
    "rebind_real",
    "warn_of_misspelled",
]

logger = logging.getLogger("dhaga")

VARIABLE = "DHAGA_REAL_THREADS"
"""The environment variable that names further modules, separated by commas."""

BUILT_IN = (
    *("cassandra.io.libevreactor", "codeguru_profiler_agent", "hanging_threads", "instana.autoprofile"),
    *("newrelic.core.profile_sessions", "newrelic.core.trace_cache", "pypprof", "pyroscope", "sentry_sdk.profiler"),
    "splunk_otel.profile",
)
"""Modules that start a thread with an event loop in C, and modules of profilers and watchdogs. The profilers and
watchdogs start a sampling thread, or read frames in such a thread. Submodules are included. Not listed are statprof,
yappi, pyinstrument and py-spy, which use signals, hooks in C, or a process of their own.
"""

STANDARD = {
    "_thread": ("_ThreadHandle", "start_joinable_thread", "start_new", "start_new_thread"),
    "threading": ("Thread", "Timer"),
    "time": ("sleep",),
}
"""For each standard module, the names that keep their standard objects in modules with real threads."""

active: tuple[str, ...] = ()
"""The modules with real threads under the current patch."""

warned_of: set[str] = set()
"""The modules about which a warning was logged."""

views: dict[str, View] = {}
"""For each standard module that has a view, the view that modules with real threads import instead."""


class View(ModuleType):
    """A module with the names of a standard module. Some names have other values."""

    def __init__(self, module: ModuleType, names: Mapping[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names, __spec__=module.__spec__, __loader__=module.__loader__)
        self.__dict__["__getattr__"] = module.__getattribute__

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a name in the standard module, such as ``threading.excepthook``, or in the view if its value differs."""
        if name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(sys.modules[self.__name__], name, value)

    def __dir__(self) -> list[str]:
        return dir(sys.modules[self.__name__])


def activate(more: Iterable[str]) -> None:
    """Set ``active`` to the built-in modules, the modules from the environment, and ``more``. From: ``patch``."""
    global active
    if isinstance(more, str):
        raise TypeError(f"real_threads takes several names, [{more!r}], and not {more!r}")
    active = (*BUILT_IN, *named(more))


def named(more: Iterable[str]) -> list[str]:
    """Return the modules that the environment variable names, and ``more``."""
    names = map(str.strip, os.environ.get(VARIABLE, "").split(","))
    return [*filter(None, names), *more]


def warn_of_misspelled(names: Iterable[str]) -> None:
    """Log a warning about each module that cannot be found, if the name of another module is similar.

    Without a similar name, no warning is logged, because the program may add the module's folder to the path later.
    From: ``patch``; the master of ``serve``, whose workers then log no further warning.
    """
    for name in {*names}.difference(BUILT_IN, warned_of):
        meant = similar_module(name)
        if meant is not None:
            warned_of.add(name)
            logger.warning("real threads: there is no module %s: did you mean %s?", name, meant)


def similar_module(name: str) -> str | None:
    """Return the most similar name if a module cannot be found; None if the module exists or no name is similar.

    No module is imported, because the patch may not have begun.
    """
    path: Sequence[str] | None = None
    parent = ""
    for part in name.split("."):
        inside = path_inside(f"{parent}{part}", path)
        if inside is None:
            similar = most_similar(part, {module.name for module in iter_modules(path)})
            return most_similar(name, BUILT_IN) or (None if similar is None else f"{parent}{similar}")
        path, parent = inside, f"{parent}{part}."
    return None


def path_inside(name: str, path: Sequence[str] | None) -> Sequence[str] | None:
    """Return the path of a module's submodules, which is empty unless the module is a package; None if no finder finds
    the module. ``path``: the path of its parent, or None for ``sys.path``.
    """
    if name in sys.modules:
        return getattr(sys.modules[name], "__path__", ())
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec.submodule_search_locations or ()
    return None


def deactivate() -> None:
    """Clear ``active``. Imported modules keep their views, which then contain the names of the unpatched modules."""
    global active
    active = ()


def is_real(name: str) -> bool:
    """Return whether the threads that a module starts are OS threads."""
    return any(name == each or name.startswith(f"{each}.") for each in active)


# ---- views


def make_views(replacements: Iterable[Replacement]) -> None:
    names: dict[str, dict[str, Any]] = {"sys": {"_current_frames": frames_by_ident}}
    for module, name, _, standard in replacements:
        if name in STANDARD.get(module.__name__, ()):
            names.setdefault(module.__name__, {})[name] = standard
    views.clear()
    views.update((name, View(sys.modules[name], known)) for name, known in names.items())


def import_view(
    name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
) -> ModuleType:
    """Import like ``__import__``, but return the view of a module that has a view."""
    module = builtins.__import__(name, globals, locals, fromlist or (), level)
    view = views.get(getattr(module, "__name__", ""))
    return module if view is None or sys.modules.get(view.__name__) is not module else view


def prepare(module: ModuleType) -> None:
    """Make a module and its functions import views. From: the post-import hook, before the module runs."""
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_view}


def rebind_real(replacements: Sequence[Replacement], log: PatchLog) -> None:
    """Create the views, and set names in modules with real threads that are already imported."""
    make_views(replacements)
    standard = {id(it.ours): it.standard for it in replacements if it.name in STANDARD.get(it.module.__name__, ())} | {
        id(sys.modules[name]): view for name, view in views.items()
    }
    for key, module, names in python_modules():
        if is_real(key):
            for name, value in bindings(names, standard):
                log.set(module, name, standard[id(value)])


# ---- sampling


LOOKS = 5
"""Maximum number of attempts to take a sample during which no dhaga begins or ends its turn."""


def frames_by_ident() -> dict[int, FrameType]:
    """Return the frames of ``sys._current_frames``. The key of a running dhaga is its own ident, not its OS thread's.

    Parked dhagas are omitted, because a sample must be short.
    """
    running = running_dhagas()
    for _ in range(LOOKS):
        before, frames, running = running, frames_of_threads(), running_dhagas()
        if running == before:
            break
    for thread_ident, dhaga in running.items():
        if thread_ident in frames:
            frames[ident_of(dhaga)] = frames.pop(thread_ident)
    return frames


def running_dhagas() -> dict[int, Dhaga]:
    """Return the running dhaga of each OS thread. The keys are the idents of the threads."""
    return {
        scheduler.thread_ident: dhaga
        for scheduler in list(schedulers)
        for dhaga in list(scheduler.live)
        if dhaga.state == RUNNING
    }
