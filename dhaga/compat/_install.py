"""Installs the names ``gevent`` and ``eventlet`` for one process: an import of either loads our package of that name.

Nothing is written to disk. Our finder precedes Python's in ``sys.meta_path``, so our gevent hides the real gevent.
``gevent.pool`` and ``dhaga.compat.gevent.pool`` are two names of one module.
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
from .._kernel.process import preemption_watcher
from .._kernel.run.idents import use_addresses
from ._absent import refuse_absent, refuse_names

NAMES = ("gevent", "eventlet")
"""The names that ``install`` and ``python -m dhaga --as`` accept."""


ALIASES = {
    "eventlet.greenio.base": "eventlet.greenio",
    "eventlet.greenio.py3": "eventlet.greenio",
    "eventlet.hubs.asyncio": "eventlet.hubs._hub",
    "eventlet.hubs.epolls": "eventlet.hubs._hub",
    "eventlet.hubs.hub": "eventlet.hubs._hub",
    "eventlet.hubs.kqueue": "eventlet.hubs._hub",
    "eventlet.hubs.poll": "eventlet.hubs._hub",
    "eventlet.hubs.selects": "eventlet.hubs._hub",
    "gevent.monkey.api": "gevent.monkey",
}
"""Modules of gevent and eventlet that have a different name in this package, each with its name here."""


class CompatFinder(MetaPathFinder):
    """A finder that loads ``dhaga.compat.gevent.x`` as ``gevent.x`` after ``install("gevent")``; same for eventlet."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.packages:
            return None
        refuse_absent(name)
        twin = find_spec(f"{__package__}.{ALIASES.get(name, name)}")
        if twin is None:
            return None
        spec = ModuleSpec(name, CompatLoader(twin.name), origin=twin.origin)
        spec.submodule_search_locations = twin.submodule_search_locations
        return spec


class CompatLoader(Loader):
    """A loader that returns a module of this package for its name in gevent or eventlet."""

    def __init__(self, twin: str) -> None:
        self.twin = twin

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.twin)
        self.own_spec = module.__spec__
        refuse_names(spec.name, module)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just set the spec of the foreign name. Restore the module's own spec.
        foreign, module.__spec__ = module.__spec__, self.own_spec
        # A module from outside this package keeps its own name: eventlet.green.socket is dhaga.socket. An import
        # under a name in ALIASES does not change the module's name either.
        if foreign is not None and foreign.name not in ALIASES and module.__name__ == self.twin:
            module.__name__ = foreign.name


finder = CompatFinder()


def install(*names: str) -> None:
    """Install Dhaga's packages in this process, so that ``import gevent`` or ``import eventlet`` finds them.

    From then on, ``select`` and ``poll`` yield at each call, like gevent's functions. Otherwise a consumer that always
    finds a message (for example kombu's) would spawn many greenlets before the first of them runs. In ``threading``,
    a greenlet's ident is its ``id()``, as in gevent.

    Parks: never. Raises: ValueError for any other name; ImportError if the real package is imported already.
    """
    for name in names:
        if name not in NAMES:
            raise ValueError(f"install takes {' and '.join(map(repr, NAMES))}, not {name!r}")
        if name not in finder.packages and name in sys.modules:
            raise ImportError(
                f"the real {name} is imported already, from {getattr(sys.modules[name], '__file__', 'elsewhere')}:\n"
                f"call dhaga.compat.install({name!r}) before the first import of it, or run the program by "
                f"python -m dhaga --as {name} …",
                name=name,
            )
        finder.packages.add(name)
    if names:
        select.immediate.yield_at_each = True
        use_addresses()
        # Programs for gevent and eventlet rely on cooperative scheduling: no other greenlet runs before the current
        # greenlet waits.
        preemption_watcher.turn_off()
    if names and finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)


def installed() -> frozenset[str]:
    """Return the names that ``install`` has installed."""
    return frozenset(finder.packages)
