"""``--rewrite``: creates the new text of a module. It changes the uses that the rules can change, and their imports.

An import is changed in its place and scope. An import is removed once all uses of its names are changed, unless another
file imports these names from this module.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .edits import Edit, ImportChange, Swap, Text
from .follow import Elsewhere, Follower
from .names import IMITATED
from .rules import Change, Rules
from .scopes import FUNCTIONS, Binding, Scope
from .uses import Module, Use, is_certain

LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line of a patch. Only a newline ends such a line."""

OTHER = "it is not a use of gevent or eventlet"
UNUSED = "nothing in this file uses it"


class Rewriting(NamedTuple):
    """The new text of a module. ``changed``: the nodes of changed uses. ``left``: the reason for each unchanged use."""

    module: Module
    text: str
    changed: set[ast.AST]
    left: dict[ast.AST, str]

    def diff(self) -> Iterator[str]:
        """Yield the lines of a unified diff, with the line ends and the byte order mark of the file."""
        mark = "\ufeff" if self.module.source.mark else ""
        old, new = (LINE.findall(mark + text) for text in (self.module.source.text, self.text))
        name = self.module.source.file.lstrip("/")
        for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"

    def patch(self) -> bytes:
        """Return the diff as bytes in the encoding of the file."""
        lines = list(self.diff())
        return os.fsencode("".join(lines[:2])) + "".join(lines[2:]).encode(self.module.source.encoding)


class Variable(NamedTuple):
    """A name that imports bind in a scope, with its uses."""

    scope: Scope
    name: str
    bindings: list[Binding]
    uses: list[Use]


def rewrite_all(modules: Iterable[Module], elsewhere: Elsewhere) -> list[Rewriting]:
    """Return the new texts of all modules. Eventlet's patch is changed only if no other use of eventlet is left."""
    modules = list(modules)
    replaced = frozenset(path for module in modules for path in module.replaced())
    done = [Rewriter(module, elsewhere, replaced, whole=False).run() for module in modules]
    if any(holds_eventlet(each) for each in done):
        return done
    return [Rewriter(each.module, elsewhere, replaced, whole=True).run() if patches(each) else each for each in done]


def patches(done: Rewriting) -> bool:
    return any(use.kind == "patch" and use.package == "eventlet" and use.node in done.left for use in done.module.uses)


def holds_eventlet(done: Rewriting) -> bool:
    """Return whether any use of eventlet is left besides its patch and the import of the patch function."""
    left = [use for use in done.module.uses if use.node in done.left and use.package == "eventlet"]
    return any(use.kind != "patch" and not (use.kind == "import" and patches(done)) for use in left)


class Rewriter:
    """Changes one module."""

    def __init__(self, module: Module, elsewhere: Elsewhere, replaced: frozenset[str], whole: bool) -> None:
        self.replaced = replaced
        self.whole = whole
        self.module = module
        self.elsewhere = elsewhere
        self.edits: list[Edit] = []
        self.changed: set[ast.AST] = set()
        self.left: dict[ast.AST, str] = {}
        self.imports: dict[ast.AST, ImportChange] = {}
        self.needs: dict[Scope, list[ast.AST]] = {}

    def run(self) -> Rewriting:
        old = self.module.source.text
        why = self._why_not_at_all()
        if not why:
            try:
                self.text = Text(old)
                self._change()
                new = self.text.changed(self.edits)
                ast.parse(new)
                self.module.source.encoded(new)
                return Rewriting(self.module, new, self.changed, self.left)
            except (SyntaxError, ValueError) as error:
                why = f"the file is left as it is: {error}"
        return Rewriting(self.module, old, set(), {use.node: why for use in self.module.uses})

    def _why_not_at_all(self) -> str:
        for scope in self.module.scopes.all:
            for binding in scope.bindings.get("dhaga", ()):
                alias = binding.alias
                if alias is None or alias.asname or not alias.name.startswith("dhaga") or binding.guarded:
                    return "the module uses the name dhaga for something else"
        return ""

    def _change(self) -> None:
        self.follower = Follower(self.module.scopes, self.module.source.file, self.elsewhere)
        rules = Rules(self.module, self.text, self.follower, self.whole)
        variables = list(self._variables())
        certain = {id(use): self._why_uncertain(variable) for variable in variables for use in variable.uses}
        changes: dict[int, Change] = {}
        for use in self.module.uses:
            if use.kind == "import":
                continue
            why = certain.get(id(use)) or (None if use.package in IMITATED else OTHER)
            if use.path in self.replaced:
                why = "a file of the tree replaces it"
            found: Change | str = why or rules.judge(use)
            if isinstance(found, Change) and self.text.has_comment(*self.text.span(use.node)):
                found = "there is a comment in it"
            if isinstance(found, str):
                self.left[use.node] = found
            else:
                changes[id(use)] = found
        for variable in variables:
            if not self._why_uncertain(variable):
                self._change_variable(variable, {k: v for k, v in changes.items() if k in map(id, variable.uses)})
        self._add_imports()
        used = {binding.alias for variable in variables for binding in variable.bindings}
        for use in self.module.uses:
            if use.kind == "import" and use.node not in self.changed:
                self.left[use.node] = self._why_import_is_left(use, used)
        self.edits += filter(None, (change.edit(self.text) for change in self.imports.values()))

    def _why_import_is_left(self, use: Use, used: set[ast.alias | None]) -> str:
        if use.package not in IMITATED:
            return OTHER
        named = isinstance(use.node, ast.alias) and use.node.name != "*"
        return UNUSED if named and use.node not in used else "other unchanged uses need it"

    def _variables(self) -> Iterator[Variable]:
        """Yield each name that imports bind, with its uses."""
        uses: dict[tuple[Scope, str], list[Use]] = {}
        for use in self.module.uses:
            if use.load is not None and use.binding is not None:
                home = use.load.scope.home_of(use.load.name.id)
                assert home is not None
                uses.setdefault((home, use.load.name.id), []).append(use)
        for (scope, name), found in uses.items():
            yield Variable(scope, name, scope.bindings[name], found)

    def _why_uncertain(self, variable: Variable) -> str:
        """Return why the imports that bind a name cannot be changed; "" if they can."""
        if not is_certain(variable.bindings):
            return "its import is conditional, or the name is also bound otherwise"
        if not isinstance(variable.scope.node, (ast.Module, *FUNCTIONS)):
            return "it is imported in a class"
        for binding in variable.bindings:
            statement = binding.statement
            assert isinstance(statement, ast.Import | ast.ImportFrom)
            if isinstance(statement, ast.ImportFrom) and statement.level:
                return "it is imported through another module"
            if self.text.has_comment(*self.text.span(statement)):
                return "there is a comment among the imported names"
        return ""

    def _change_variable(self, variable: Variable, changes: dict[int, Change]) -> None:
        if not changes:
            return
        wanted = variable.scope is self.module.scopes.module and self.follower.is_wanted_elsewhere(variable.name)
        drops = len(changes) == len(variable.uses) and not wanted
        swap = self._swap(variable, list(changes.values())) if drops else None
        for use in variable.uses:
            change = changes.get(id(use))
            if change is not None:
                self.edits += change.edits
                self.changed.add(use.node)
                if swap is None:
                    self._change_name(use, change)
        if swap is None and any(change.target.startswith("dhaga") for change in changes.values()):
            self.needs.setdefault(variable.scope, []).extend(binding.statement for binding in variable.bindings)
        for binding in variable.bindings:
            if drops and binding.alias is not None:
                change_of = self._import(binding.statement)
                self.changed.add(binding.alias)
                if swap is None:
                    change_of.dropped.add(binding.alias)
                else:
                    change_of.swapped[binding.alias] = swap

    def _swap(self, variable: Variable, changes: list[Change]) -> Swap | None:
        """Return the name to import from another module if no use then needs a change; otherwise, return None."""
        targets = {change.target for change in changes if change.length == 0}
        binding = variable.bindings[0]
        whole = len(variable.bindings) == 1 and isinstance(binding.statement, ast.ImportFrom)
        if not whole or binding.alias is None or len(targets) != 1 or any(change.length for change in changes):
            return None
        module, _, name = targets.pop().rpartition(".")
        return Swap(module, name, variable.name) if name == binding.alias.name and module else None

    def _change_name(self, use: Use, change: Change) -> None:
        assert use.load is not None
        node: ast.AST = use.load.name
        for _ in range(change.length):
            node = self.module.scopes.parents[node]
        edit = Edit(*self.text.span(node), change.target)
        if edit not in self.edits:
            self.edits.append(edit)

    def _import(self, statement: ast.AST) -> ImportChange:
        assert isinstance(statement, ast.Import | ast.ImportFrom)
        return self.imports.setdefault(statement, ImportChange(statement))

    def _add_imports(self) -> None:
        """Add ``import dhaga`` to each scope that needs it, before the scope's first import that is replaced."""
        for scope, statements in self.needs.items():
            first = min(statements, key=lambda each: each.lineno)  # type: ignore[attr-defined]
            known = [*scope.bindings.get("dhaga", ()), *self.module.scopes.module.bindings.get("dhaga", ())]
            if not any(each.statement.lineno < first.lineno for each in known):  # type: ignore[attr-defined]
                self._import(first).adds = True
