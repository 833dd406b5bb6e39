"""Atomic lines on a build without the interpreter lock: each runs under the guard of its object.

With the lock, a line tagged ``# atomic`` is atomic by itself (``_sync/lock.py``). On a free-threaded build, an import
hook compiles the modules of this package from a tree in which such a line stands in ``with OBJECT._guard:``. OBJECT is
the first name in the line that has an attribute (``self`` of ``self._holder``), or else ``self``. Its class is a
``Guarded`` (``guards.py``). The lines of an ``else`` stay outside. So the source has one form and one tag, and builds
with the lock pay nothing.

A guard is re-entrant: a signal handler or a finalizer may come between its acquisition and the line, in the same OS
thread. No line parks, so no guard is held across a switch.
The hook sees later imports only. The bytecode is not cached: a cached file could come from a compiler that does not
know the tag, such as pip's. Compiling anew costs 30 ms at the import of the package. Builds with the lock do not import
this module: that would take 5 ms, with the standard modules that it needs.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

PACKAGE = __name__.partition(".")[0]

TAG = "# atomic"


def tagged_lines(source: bytes) -> set[int]:
    """Return the numbers of the lines that end with the tag."""
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and TAG in token.string}


def guarded_tree(source: bytes, path: str) -> ast.Module:
    """Return the tree of a module with each tagged line under its guard. Raises: SyntaxError."""
    tree = ast.parse(source, path)
    Guarding(tagged_lines(source)).visit(tree)
    return ast.fix_missing_locations(tree)


class Guarding(ast.NodeTransformer):
    """Puts the statements of each tagged line into a ``with`` block."""

    def __init__(self, lines: set[int]) -> None:
        self.lines = lines
        self.guarded: set[int] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list):
                setattr(node, field, self.guard_lines(body))
        for handler in getattr(node, "handlers", ()):
            self.generic_visit(handler)
        return node

    def guard_lines(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Guard the tagged statements of a block. Those of one line stay together."""
        done: list[ast.stmt] = []
        for statement in body:
            line = statement.lineno
            if line not in self.lines:
                done.append(self.visit(statement))
            elif line in self.guarded:
                assert isinstance(done[-1], ast.With)
                done[-1].body.append(statement)
            else:
                self.guarded.add(line)
                done += self.guard(statement)
        return done

    def guard(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return a statement in its ``with`` block. Of an ``if`` only the first branch is in it; the others follow."""
        others: list[ast.stmt] = []
        if isinstance(statement, ast.If) and statement.orelse:
            name = f"line_{statement.lineno}_applies"
            others = [
                ast.If(ast.UnaryOp(ast.Not(), ast.Name(name, ast.Load())), self.guard_lines(statement.orelse), [])
            ]
            statement.test = ast.NamedExpr(ast.Name(name, ast.Store()), statement.test)
            statement.orelse = []
        guard = ast.Attribute(ast.Name(looked_at(statement), ast.Load()), "_guard", ast.Load())
        block = ast.With([ast.withitem(guard)], [statement])
        for made in (block, *others):
            ast.copy_location(made, statement)
        return [block, *others]


def looked_at(statement: ast.stmt) -> str:
    """Return the name of the object that an atomic line looks at."""
    names = [
        node.value
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    return min(names, key=lambda name: name.col_offset).id if names else "self"


class Loader(SourceFileLoader):
    """Loads a module of the package, with its tagged lines under guards."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if TAG.encode() not in source:
            return super().get_code(fullname)
        return compile(guarded_tree(source, path), path, "exec", dont_inherit=True)


class Finder:
    """Finds the modules of the package, for the loader above."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(name, spec.loader.path)
        return spec
