"""What a patched program needs besides, for packages that wait in C but can be told how: done when they are imported.

Nothing is imported that the program does not import. ``HOOKED`` is all of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["HOOKED", "unwatch", "watch"]

HOOKED = {"psycopg": "dhaga.integrations.psycopg", "psycopg2": "dhaga.integrations.psycopg2"}
"""The packages, and for each the module whose ``install`` and ``uninstall`` are called."""


class Arrivals:
    """A finder that finds nothing by itself: it has ``install`` called after the others' loader is done."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in HOOKED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class Loader:
    """Loads one package by its own loader, which is what the module knows of, and then installs what belongs to it."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.own
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        self.own.exec_module(module)
        if finder in sys.meta_path:
            import_module(HOOKED[module.__name__]).install()


finder = Arrivals()


def watch() -> None:
    """Install what belongs to the packages that are imported already, and to others as soon as they are."""
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    for name in HOOKED.keys() & sys.modules.keys():
        import_module(HOOKED[name]).install()


def unwatch() -> None:
    """Undo it."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)
    for ours in HOOKED.values():
        if ours in sys.modules:
            sys.modules[ours].uninstall()
