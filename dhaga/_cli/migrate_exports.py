"""Names of a library that modules of a tree pass on: ``from .compat import spawn`` is gevent's, if compat.py has it so."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .migrate_uses import Module

IMPORTED = re.compile(rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b)", re.MULTILINE)


class Exports:
    """By the path of a module without its suffix: which of its names are names of a library."""

    def __init__(self) -> None:
        self.names: dict[str, dict[str, str]] = {}
        self.by_last: dict[str, list[str]] = {}

    def add(self, module: Module) -> bool:
        """Note what another module can import from this one. Returns: whether there is more than before."""
        found = {
            name: next(each.path for each in bindings if each.path is not None)
            for name, bindings in module.scopes.module.bindings.items()
            if any(each.path is not None for each in bindings)
        }
        key = module_file(module.source.file)
        more = found.keys() > self.names.get(key, {}).keys()
        if found:
            if key not in self.names:
                self.by_last.setdefault(key.rpartition("/")[2], []).append(key)
            self.names[key] = found
        return more

    def names_of(self, module: Module) -> set[bytes]:
        """Return by what last name others import from a module."""
        key = module_file(module.source.file)
        return {key.rpartition("/")[2].encode(), *([b""] if module.source.file.endswith("__init__.py") else [])}

    def may_concern(self, data: bytes, names: set[bytes]) -> bool:
        """Return whether a file imports something from a module of one of these last names."""
        return any(each.rpartition(b".")[2] in names for each in IMPORTED.findall(data))

    def path_of(self, file: str, node: ast.ImportFrom, name: str) -> str | None:
        """Return what a name is that a file imports from another of the tree; None if it is nothing of a library."""
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
    """Return the path by which a module is imported: without suffix, a package's without ``__init__``."""
    return file.removesuffix(".pyw").removesuffix(".py").removesuffix("/__init__")
