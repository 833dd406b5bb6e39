"""Real threads: modules whose threads stay OS threads under the patch, such as profilers and watchdogs.

A sampling profiler looks at its program from a thread of its own, in which it sleeps. If that thread were a dhaga, it
would run only where the program parks, and see itself. A thread that runs an event loop in C, such as libev, would
never park. In the modules named here, ``threading.Thread``, ``Timer``, ``time.sleep`` and the functions of ``_thread``
that start threads are the standard ones. Locks, queues and sockets are ours: they work in OS threads, and a dhaga that
waits for such a thread parks. ``sys._current_frames`` names a running dhaga by its ident.

``import threading`` in such a module returns a view of the standard module: ``__builtins__`` of the module has another
``__import__``. In modules that were imported before the patch, the names are set.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from .._kernel.run.attachment import schedulers
from .._kernel.run.idents import ident_of
from .._kernel.run.microthread import RUNNING, Dhaga
from .._kernel.wait.deadlock import frames_of_threads
from ._rebind import PatchLog, Replacement, bindings

__all__ = ["BUILT_IN", "VARIABLE", "activate", "deactivate", "is_real", "prepare", "rebind_real"]

VARIABLE = "DHAGA_REAL_THREADS"
"""The environment variable with more modules, separated by commas."""

BUILT_IN = (
    *("cassandra.io.libevreactor", "codeguru_profiler_agent", "hanging_threads", "instana.autoprofile"),
    *("newrelic.core.profile_sessions", "newrelic.core.trace_cache", "pypprof", "pyroscope", "sentry_sdk.profiler"),
    "splunk_otel.profile",
)
"""Modules that start a thread with an event loop in C. Profilers and watchdogs that sample from a thread, by the module
that starts it or reads the frames. Submodules are included. Not statprof, yappi, pyinstrument and py-spy: these have
signals, hooks in C, or a process of their own.
"""

STANDARD = {
    "_thread": ("_ThreadHandle", "start_joinable_thread", "start_new", "start_new_thread"),
    "threading": ("Thread", "Timer"),
    "time": ("sleep",),
}
"""The names that are standard in these modules."""

active: tuple[str, ...] = ()
"""The modules under the present patch."""

views: dict[str, View] = {}
"""The standard modules that modules with real threads get, by name."""


class View(ModuleType):
    """A standard module with some other names."""

    def __init__(self, module: ModuleType, names: Mapping[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(names, __spec__=module.__spec__, __loader__=module.__loader__)
        self.__dict__["__getattr__"] = module.__getattribute__

    def __dir__(self) -> list[str]:
        return dir(sys.modules[self.__name__])


def activate(more: Iterable[str]) -> None:
    """Begin with the built-in modules, those of the environment, and ``more``. From: a patch, first of all."""
    global active
    named = os.environ.get(VARIABLE, "").split(",")
    active = (*BUILT_IN, *(name.strip() for name in named if name.strip()), *more)


def deactivate() -> None:
    """End the list. Modules that are imported keep their views, with the names of the unpatched modules."""
    global active
    active = ()


def is_real(name: str) -> bool:
    """Return whether a module's threads are real."""
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
    """Import as ``__import__`` does, and return the view of a module that has one."""
    module = builtins.__import__(name, globals, locals, fromlist or (), level)
    view = views.get(getattr(module, "__name__", ""))
    return module if view is None or sys.modules.get(view.__name__) is not module else view


def prepare(module: ModuleType) -> None:
    """Give a module an import of views, also for its functions. From: the post-import hook, before the module runs."""
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_view}


def rebind_real(replacements: Sequence[Replacement], log: PatchLog) -> None:
    """Make the views, and set the names in the modules that are imported already."""
    make_views(replacements)
    standard = {id(it.ours): it.standard for it in replacements if it.name in STANDARD.get(it.module.__name__, ())} | {
        id(sys.modules[name]): view for name, view in views.items()
    }
    for key, module, name, value in bindings():
        if id(value) in standard and is_real(key):
            log.set(module, name, standard[id(value)])


# ---- sampling


LOOKS = 5
"""The most samples that are taken until no dhaga has begun or ended its turn during one."""


def frames_by_ident() -> dict[int, FrameType]:
    """Return the frames of ``sys._current_frames``. A dhaga that runs is listed by its own ident, and not by its OS
    thread's.

    Parked dhagas are left out, because a sample has to be short.
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
    """Return the dhaga that runs in each OS thread, by the ident of the thread."""
    return {
        scheduler.thread_ident: dhaga
        for scheduler in list(schedulers)
        for dhaga in list(scheduler.live)
        if dhaga.state == RUNNING
    }
