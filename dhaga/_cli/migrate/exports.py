"""Names of a library that modules of a tree re-export: ``from .compat import spawn`` may import gevent's ``spawn``."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .uses import Module

IMPORT = re.compile(rb"\bfrom[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n\\;#]*(?:\\\r?\n[^\n\\;#]*)*)")


def imported(data: bytes) -> list[tuple[bytes, set[bytes]]]:
    """Return the ``from`` imports in a text: the last part of each module's name, and the words after ``import``."""
    return [(module.rpartition(b".")[2], set(re.findall(rb"\w+|\*", names))) for module, names in IMPORT.findall(data)]


class Exports:
    """The names of a library that each module re-exports. A module's path without suffix identifies the module."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}
        self.by_last: dict[str, list[str]] = {}

    def add(self, module: Module) -> bool:
        """Add the names that other modules can import from ``module``. Returns: whether any name is new."""
        found = {
            name: next(each.path for each in bindings if each.path is not None)
            for name, bindings in module.scopes.module.bindings.items()
            if any(each.path is not None and each.path != "threading" for each in bindings)
        }
        key = module_file(module.source.file)
        more = found.keys() > self.names.get(key, {}).keys()
        if found:
            if key not in self.names:
                self.by_last.setdefault(key.rpartition("/")[2], []).append(key)
            self.names[key] = found
        return more

    def wanted(self, modules: Iterable[Module]) -> dict[bytes, set[bytes]]:
        """Return a library's names that these modules export. The keys are the last parts of the modules' names."""
        found: dict[bytes, set[bytes]] = {}
        for module in modules:
            key = module_file(module.source.file)
            lasts = [
                os.fsencode(key.rpartition("/")[2]),
                *([b""] if module.source.file.endswith("__init__.py") else []),
            ]
            for last in lasts:
                found.setdefault(last, set()).update(name.encode() for name in self.names[key])
        return found

    def path_of(self, file: str, node: ast.ImportFrom, name: str) -> str | None:
        """Return the full library path of a name that ``file`` imports from another file of the tree.

        Returns: None if the name is not a library's name.
        """
        parts = (node.module or "").split(".") if node.module else []
        if node.level:
            folder = file.split("/")[: -node.level]
            return self.names.get("/".join([*folder, *parts]), {}).get(name)
        if not parts or parts[0] in sys.stdlib_module_names:
            return None
        for known in self.by_last.get(parts[-1], ()):
            if name in self.names[known] and known.split("/")[-len(parts) :] == parts:
                return self.names[known][name]
        return None


def module_file(file: str) -> str:
    """Return the path of a module's file without suffix and ``__init__``."""
    return file.removesuffix(".pyw").removesuffix(".py").removesuffix("/__init__")
