"""Finds the objects to which a module's names refer: the module's scopes, the bindings of names in each scope, and the
uses of names.

A name refers to a library's object if all bindings of the name in its scope import that object. A name that also has
other bindings is ambiguous. Code is never executed, so computed names (``getattr``, ``exec``) are not found.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

OPENING = frozenset({*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS})
BINDING = {ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Name, ast.arg}
BINDING |= {ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping}
BINDING |= {getattr(ast, name, ast.arg) for name in ("TypeVar", "ParamSpec", "TypeVarTuple")}  # PEP 695
"""Types of nodes that open a scope, and of nodes that bind or load names. Most nodes are of neither kind."""


class Binding(NamedTuple):
    """A binding of a name. ``path``: path of the library's object that an import binds; None for other bindings.

    ``guarded``: whether the binding is conditional, such as an import in a ``try`` or an ``if``. ``statement``: the
    import, or another node that binds the name. ``alias``: the name in the import.
    """

    path: str | None
    statement: ast.AST
    alias: ast.alias | None = None
    guarded: bool = False


class Scope:
    """A module, class, function or comprehension, and its bindings."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = {}
        self.elsewhere: dict[str, bool] = {}  # names declared global (True) or nonlocal (False)

    def bind(self, name: str, binding: Binding) -> None:
        if name in self.elsewhere:
            home = self.home_of(name) or self.module
            home.bindings.setdefault(name, []).append(binding._replace(guarded=True))
        else:
            self.bindings.setdefault(name, []).append(binding)

    @property
    def module(self) -> Scope:
        return self if self.parent is None else self.parent.module

    def home_of(self, name: str) -> Scope | None:
        """Return the scope of the variable to which a name refers here; None for a builtin or an unknown name."""
        if self.elsewhere.get(name):
            return self.module if name in self.module.bindings else None
        scope: Scope | None = self
        if name in self.elsewhere:
            scope = self.parent
        while scope is not None:
            skipped = isinstance(scope.node, ast.ClassDef) and scope is not self
            if name in scope.bindings and not skipped:
                return scope
            scope = scope.parent
        return None


class Load(NamedTuple):
    """A use of a name. ``attributes`` are read from the name; ``node`` is the whole expression."""

    name: ast.Name
    scope: Scope
    attributes: tuple[str, ...]
    node: ast.expr


class Scopes:
    """The scopes of one module, and all uses of names. ``find`` returns the path that an import binds."""

    def __init__(self, tree: ast.Module, find: Callable[[ast.AST, ast.alias], str | None]) -> None:
        self.find = find
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.loads: list[Load] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.stars: list[ast.ImportFrom] = []
        self.texts: list[ast.Constant] = []
        self.stores: dict[ast.Name, Scope] = {}
        self.module = Scope(tree, None)
        self.all = [self.module]
        self._walk(tree, self.module)

    def loads_of(self, scope: Scope, name: str) -> Iterator[Load]:
        """Yield the uses of a variable of a scope, including uses in inner scopes."""
        return (each for each in self.loads if each.name.id == name and each.scope.home_of(name) is scope)

    # ---- walking

    def _walk(self, root: ast.AST, scope: Scope) -> None:
        """Visit all nodes. An explicit stack replaces recursion, because a long chain of operators is deeply nested."""
        stack = [(root, scope)]
        while stack:
            node, here = stack.pop()
            inner = self._open(node, here)
            outside = set(map(id, outer_parts(node)))
            around = here if inner is not here else here.parent or here
            for child in reversed(list(ast.iter_child_nodes(node))):  # reversed, so that children are visited in order
                self.parents[child] = node
                stack.append((child, around if id(child) in outside else inner))
            if type(node) in BINDING:
                self._note(node, here)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                self.texts.append(node)

    def _open(self, node: ast.AST, here: Scope) -> Scope:
        if type(node) not in OPENING:
            return here
        inner = Scope(node, here)
        self.all.append(inner)
        for each in declarations(node):  # declarations apply to the whole scope, so they are read first
            inner.elsewhere.update(dict.fromkeys(each.names, isinstance(each, ast.Global)))
        return inner

    def _note(self, node: ast.AST, here: Scope) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node, here)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                here.bind(node.name, Binding(None, node))
            case ast.Name(ctx=ast.Load()):
                self._load(node, here)
            case ast.Name():
                self._store(node, here)
            case ast.arg():
                here.bind(node.arg, Binding(None, node))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                here.bind(name, Binding(None, node))
            case ast.MatchMapping(rest=str(name)):
                here.bind(name, Binding(None, node))
            case _ if hasattr(node, "name"):  # a type parameter
                here.bind(node.name, Binding(None, node))

    def _store(self, node: ast.Name, here: Scope) -> None:
        while isinstance(self.parents[node], ast.NamedExpr) and isinstance(here.node, COMPREHENSIONS) and here.parent:
            here = here.parent
        self.stores[node] = here
        here.bind(node.id, Binding(None, node))

    def _import(self, node: ast.Import | ast.ImportFrom, here: Scope) -> None:
        self.imports.append(node)
        parent = self.parents[node]
        guarded = not isinstance(parent, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(node)  # type: ignore[arg-type]
                continue
            name = alias.asname or (alias.name.partition(".")[0] if isinstance(node, ast.Import) else alias.name)
            here.bind(name, Binding(self.find(node, alias), node, alias, guarded))

    def _load(self, name: ast.Name, here: Scope) -> None:
        node: ast.expr = name
        attributes = []
        while isinstance(parent := self.parents[node], ast.Attribute):
            attributes.append(parent.attr)
            node = parent
        self.loads.append(Load(name, here, tuple(attributes), node))


def outer_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node's children that are evaluated in the surrounding scope, such as decorators and defaults."""
    match node:
        case ast.ClassDef():
            yield from (*node.decorator_list, *node.bases, *node.keywords)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (*node.decorator_list, *filter(None, [node.returns]))
        case ast.arguments():
            yield from (*node.defaults, *filter(None, node.kw_defaults))
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation


def declarations(node: ast.AST) -> Iterator[ast.Global | ast.Nonlocal]:
    """Yield the ``global`` and ``nonlocal`` statements of a function or class, without nested functions and classes."""
    stack = list(getattr(node, "body", ())) if not isinstance(node, ast.Lambda) else []
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Global | ast.Nonlocal):
            yield each
        elif not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
            stack.extend(child for child in ast.iter_child_nodes(each) if not isinstance(child, ast.expr))
