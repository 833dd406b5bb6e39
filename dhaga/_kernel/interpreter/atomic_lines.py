"""An import hook for builds without the interpreter lock. The hook puts lines tagged ``# atomic`` under a guard.

With the interpreter lock, a tagged line is atomic by itself (``_sync/lock.py``). On a free-threaded build, the import
hook parses the modules of this package and puts each tagged line into ``with OBJECT._guard:``. OBJECT is the first name
in the line whose attribute is read or set (``self`` in ``self._holder``); without such a name, OBJECT is ``self``. The
class of OBJECT derives from a class of ``guards.py``, such as ``Guarded``. The lines of an ``else`` stay outside the
``with`` block. So both builds share the source, and builds with the lock have no overhead.

A guard is re-entrant, because a signal handler or a finalizer may run in the same OS thread between the acquisition and
the line. No atomic line parks, so no guard is held across a switch.
The hook applies only to imports after the hook's installation. The bytecode is not cached: a cached file could come
from a compiler that does not know the tag, such as the one that pip runs at an install. Compiling takes 30 ms at each
import of the package.
Builds with the lock do not import this module: the import would take 5 ms, including ``ast`` and ``tokenize``.
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
    """Return the numbers of the lines whose comment contains the tag."""
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT and TAG in token.string}


def guarded_tree(source: bytes, path: str) -> ast.Module:
    """Return the syntax tree of a module in which each tagged line is under its guard. Raises: SyntaxError."""
    tree = ast.parse(source, path)
    Guarding(tagged_lines(source)).visit(tree)
    return ast.fix_missing_locations(tree)


class Guarding(ast.NodeTransformer):
    """A transformer of syntax trees that puts the statements of each tagged line into a ``with`` block."""

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
        """Guard the tagged statements of a block. The statements of one line share a ``with`` block."""
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
        """Put a statement into a ``with`` block. Of an ``if``, only the test and the first branch are in this block."""
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
    """Return the object's name in the first attribute access of an atomic line."""
    names = [
        node.value
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    return min(names, key=lambda name: name.col_offset).id if names else "self"


class Loader(SourceFileLoader):
    """The loader of the package's modules, which puts tagged lines under guards."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if TAG.encode() not in source:
            return super().get_code(fullname)
        return compile(guarded_tree(source, path), path, "exec", dont_inherit=True)


class Finder:
    """The finder of the package's modules. It gives the modules the ``Loader``."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{PACKAGE}."):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(name, spec.loader.path)
        return spec
