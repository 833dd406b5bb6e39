"""Finds the uses of an object that is stored in a variable or an attribute, as far as the text of a module shows them.

An object is followed only if all uses of its variable are known. The variable is a name in a function or module, or an
attribute that no other file of the tree uses. An object that is passed on, returned or stored elsewhere is not
followed.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .exports import imported, module_file
from .scopes import FUNCTIONS, Scopes

ATTRIBUTE = re.compile(rb"(?<!\bself)\.[ \t]*([A-Za-z_]\w*)")
IMPORT_LINE = re.compile(rb"^[ \t]*(?:from|import)[ \t].*", re.MULTILINE)
OF_SELF = re.compile(rb"\bself\.([A-Za-z_]\w*)")
QUALIFIED = re.compile(rb"\b([A-Za-z_]\w*)(?=\.([A-Za-z_]\w*))")


class Elsewhere:
    """The attributes, and the names in modules, that each file of a tree uses. A text search finds the names, and may
    find too many.

    A use of ``self.NAME`` in another file counts only if that file imports from the queried file, directly or through
    other files. Only then can one of its classes be derived from a class of the queried file.
    """

    def __init__(self, files: Iterable[tuple[str, bytes]]) -> None:
        self.attributes: dict[bytes, str] = {}  # the file that uses the attribute; "" if several do
        self.of_self: dict[bytes, set[str]] = {}
        self.taken: dict[
            bytes, dict[bytes, set[str]]
        ] = {}  # last part of a module's name -> name in it -> files that use the name
        for file, data in files:
            self._add(file, data)

    def _add(self, file: str, data: bytes) -> None:
        for name in set(ATTRIBUTE.findall(IMPORT_LINE.sub(b"", data))):
            if self.attributes.setdefault(name, file) != file:
                self.attributes[name] = ""
        for name in set(OF_SELF.findall(data)):
            self.of_self.setdefault(name, set()).add(file)
        taken = [*imported(data), *((module, {name}) for module, name in set(QUALIFIED.findall(data)))]
        for module, names in taken:
            of_module = self.taken.setdefault(module, {})
            for name in names:
                of_module.setdefault(name, set()).add(file)

    def uses_attribute(self, name: str, file: str) -> bool:
        """Return whether another file may use an attribute of this name on an object of ``file``."""
        if self.attributes.get(name.encode(), file) != file:
            return True
        others = self.of_self.get(name.encode(), set()) - {file}
        return bool(others) and not others.isdisjoint(self._derived_from(file))

    def _derived_from(self, file: str) -> set[str]:
        """Return the files that import from ``file``, directly or through other files."""
        found: set[str] = set()
        stack = [file]
        while stack:
            for users in self._taken_from(stack.pop()).values():
                stack += users - found
                found |= users
        return found - {file}

    def _taken_from(self, file: str) -> dict[bytes, set[str]]:
        stem = os.fsencode(module_file(file).rpartition("/")[2])
        found = dict(self.taken.get(stem, {}))
        if file.endswith("__init__.py"):
            for name, users in self.taken.get(b"", {}).items():
                found[name] = found.get(name, set()) | users
        return found

    def takes(self, name: str, file: str) -> bool:
        """Return whether another file may import ``name`` from ``file``, or use it as the module's attribute."""
        taken = self._taken_from(file)
        return any(taken.get(each, set()) - {file} for each in (name.encode(), b"*"))


class Variable(NamedTuple):
    """The values and uses of a name or attribute that stores an object. ``lost``: the reason if the object cannot be
    followed.
    """

    values: list[ast.AST]
    uses: list[ast.expr]
    lost: str = ""


class Follower:
    """Finds the variables of a module in which objects are stored."""

    def __init__(self, scopes: Scopes, file: str, elsewhere: Elsewhere) -> None:
        self.scopes = scopes
        self.parents = scopes.parents
        self.file = file
        self.elsewhere = elsewhere
        self.attributes: dict[str, list[ast.Attribute]] = {}
        self.listed = set(names_in_all(scopes.tree))
        for node in ast.walk(scopes.tree):
            if isinstance(node, ast.Attribute):
                self.attributes.setdefault(node.attr, []).append(node)

    def variable(self, node: ast.AST) -> Variable:
        """Return the variable that a node stores or loads."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        return lost(f"it is stored where it cannot be followed, at line {line_of(node)}")

    def is_wanted_elsewhere(self, name: str) -> bool:
        return name in self.listed or self.elsewhere.takes(name, self.file)

    def _name(self, node: ast.Name) -> Variable:
        scope = self.scopes.stores.get(node)
        if scope is None:
            scope = next(each.scope for each in self.scopes.loads if each.name is node).home_of(node.id)
        if scope is None or node.id in scope.elsewhere or isinstance(scope.node, ast.ClassDef):
            return lost(f"{node.id} is not a variable of a function or of the module")
        if scope is self.scopes.module and self.is_wanted_elsewhere(node.id):
            return lost(f"{node.id} is imported by another file")
        values = []
        for binding in scope.bindings[node.id]:
            value = value_of(binding.statement, self.parents)
            if value is None or binding.guarded:
                return lost(f"{node.id} is also bound otherwise, at line {line_of(binding.statement)}")
            values.append(value)
        return Variable(values, [load.name for load in self.scopes.loads_of(scope, node.id)])

    def _attribute(self, node: ast.Attribute) -> Variable:
        if self.elsewhere.uses_attribute(node.attr, self.file):
            return lost(f"another file uses an attribute {node.attr}")
        values, uses = [], []
        for each in self.attributes[node.attr]:
            if isinstance(each.ctx, ast.Load):
                uses.append(each)
                continue
            value = value_of(each, self.parents)
            if value is None:
                return lost(f"{node.attr} is also set otherwise, at line {each.lineno}")
            if not (isinstance(value, ast.Constant) and value.value is None):
                values.append(value)
        return Variable(values, list(uses))


def lost(why: str) -> Variable:
    return Variable([], [], why)


def line_of(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def value_of(target: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST | None:
    """Return the value that an assignment stores in ``target``, or the loop whose variable is ``target``.

    Returns: None if the value is not obvious.
    """
    match parent := parents.get(target):
        case ast.Assign(targets=[only], value=value) if only is target:
            return value
        case ast.AnnAssign(value=ast.expr() as value):
            return value
        case ast.For() | ast.comprehension() if parent.target is target:
            return parent
    return None


def names_in_all(tree: ast.Module) -> Iterator[str]:
    """Yield the strings in ``__all__``."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
                yield from (
                    each.value for each in ast.walk(node.value)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )  # fmt: skip


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in a statement's body and ``else`` branch, except those inside nested functions and classes."""
    stack = [each for name in ("body", "orelse") for each in getattr(node, name, ())]
    while stack:
        each = stack.pop()
        yield each
        if not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(each))
