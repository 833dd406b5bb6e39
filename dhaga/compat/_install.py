"""The names ``gevent`` and ``eventlet`` for one process: an import of either finds the package here.

Nothing is written to disk. The finder stands first in ``sys.meta_path``, so that a real gevent beside it is not found;
``gevent.pool`` and ``dhaga.compat.gevent.pool`` are one module under two names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .. import select
from ._absent import refuse_absent

NAMES = ("gevent", "eventlet")
"""What ``install`` takes, and ``python -m dhaga --as``."""


class CompatFinder(MetaPathFinder):
    """Finds ``gevent.x`` as ``dhaga.compat.gevent.x``, for the packages that are installed."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.packages:
            return None
        refuse_absent(name)
        twin = find_spec(f"{__package__}.{name}")
        if twin is None:
            return None
        spec = ModuleSpec(name, CompatLoader(twin.name), origin=twin.origin)
        spec.submodule_search_locations = twin.submodule_search_locations
        return spec


class CompatLoader(Loader):
    """Gives the module of this package for the foreign name, unchanged."""

    def __init__(self, twin: str) -> None:
        self.twin = twin

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.twin)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given it the foreign spec; it has run by its own.
        module.__spec__ = self.own_spec


finder = CompatFinder()


def install(*names: str) -> None:
    """Make ``import gevent`` and ``import eventlet``, each if it is named, find Dhaga's, in this process.

    ``select`` and ``poll`` yield at each call from now on, as theirs do: a consumer that always finds a message
    (kombu's) would otherwise spawn a crowd of greenlets before the first of them runs.

    Parks: never. Raises: ValueError for another name; ImportError if the real package is imported already.
    """
    for name in names:
        if name not in NAMES:
            raise ValueError(f"install takes {' and '.join(map(repr, NAMES))}, not {name!r}")
        if name not in finder.packages and name in sys.modules:
            raise ImportError(
                f"the real {name} is imported already, from {getattr(sys.modules[name], '__file__', 'elsewhere')}: "
                f"call dhaga.compat.install({name!r}) before the first import of it, or run the program by "
                f"python -m dhaga --as {name} …",
                name=name,
            )
        finder.packages.add(name)
    if names:
        select.immediate.yield_at_each = True
    if names and finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


def installed() -> frozenset[str]:
    """Return the names that stand for Dhaga's packages in this process."""
    return frozenset(finder.packages)
