"""Finds the greenlets of a module that can become dhagas.

A greenlet can become a dhaga if the module keeps no reference to it, or if all uses of the reference are known.
A call of ``spawn`` and the calls of ``joinall`` with its greenlet depend on each other. Therefore all calls begin as
candidates, and calls that cannot be changed are removed until all remaining calls can be changed.
"""

from __future__ import annotations

import ast

from .edits import Edit, Text, add_argument
from .follow import Follower, line_of
from .names import SAME
from .uses import Module

SPAWNS = {
    **{path: name for path, name in SAME.items() if name.startswith("spawn")},
    "gevent.Greenlet.spawn": "spawn",
    "gevent.greenlet.Greenlet.spawn": "spawn",
    "gevent.Greenlet.spawn_later": "spawn_later",
    "gevent.spawn_raw": "spawn",
    "eventlet.spawn_n": "spawn",
    "eventlet.greenthread.spawn_n": "spawn",
    "eventlet.spawn_after": "spawn_later",
    "eventlet.greenthread.spawn_after": "spawn_later",
}
UNHELD = {"gevent.spawn_raw", "eventlet.spawn_n", "eventlet.greenthread.spawn_n"}
"""Functions that return a plain greenlet, which lacks the methods in ``METHODS``."""

JOINS = {"gevent.joinall", "gevent.greenlet.joinall"}
METHODS = {"join": "join", "get": "result", "wait": "result"}
"""Methods of a Greenlet or GreenThread, each with Dhaga's equivalent. Only a call of ``join`` may have arguments."""

OWN_OPTIONS = {"name", "daemon", "priority", "context"}
"""Arguments of ``dhaga.spawn`` itself, which are not passed to the spawned function."""


class Greenlets:
    """The spawned greenlets of a module. ``why`` contains the reason for each call that stays unchanged."""

    def __init__(self, module: Module, text: Text, follower: Follower) -> None:
        self.parents = module.scopes.parents
        self.text = text
        self.follower = follower
        self.spawns: dict[ast.AST, str] = {}
        self.joins: set[ast.AST] = set()
        self.why: dict[ast.AST, str] = {}
        self.edits: dict[ast.AST, list[Edit]] = {}
        self.busy: set[tuple[ast.AST, bool]] = set()
        self.asked: set[ast.AST] = set()
        for use in module.uses:
            call = self.parents.get(use.load.node) if use.load is not None and use.binding is not None else None
            if isinstance(call, ast.Call) and call.func is use.load.node:  # type: ignore[union-attr]
                if use.path in SPAWNS:
                    self.spawns[call] = use.path
                elif use.path in JOINS:
                    self.joins.add(call)
        self._settle()

    def why_not_spawn(self, call: ast.Call) -> str:
        return self.why.get(call, "")

    why_not_join = why_not_spawn

    def edits_of(self, call: ast.Call) -> list[Edit]:
        return self.edits.get(call, [])

    def _settle(self) -> None:
        """Remove candidates that cannot be changed, until all remaining candidates can be changed."""
        while True:
            self.edits = {}
            fallen = {}
            for call, path in self.spawns.items():
                if call not in self.why and (why := self._fault_of_spawn(call, path)):  # type: ignore[arg-type]
                    fallen[call] = why
            for call in self.joins:
                if call not in self.why and (why := self._fault_of_join(call)):  # type: ignore[arg-type]
                    fallen[call] = why
            if not fallen:
                return
            self.why.update(fallen)

    # ---- one call

    def _fault_of_spawn(self, call: ast.Call, path: str) -> str:
        least = 2 if SPAWNS[path] == "spawn_later" else 1
        if len(call.args) < least or any(isinstance(each, ast.Starred) for each in call.args[:least]):
            return "its function is not named"
        if least == 2 and may_be_negative(call.args[0]):
            return "its seconds may be negative, which only gevent and eventlet accept"
        if any(each.arg is None or each.arg in OWN_OPTIONS for each in call.keywords):
            return "its keyword arguments may be taken for arguments of dhaga.spawn"
        edits = [add_argument(self.text, call, "daemon=True")]
        self.busy = set()
        why = self._fault_of_value(call, True, edits)
        if not why and path in UNHELD and not isinstance(self.parents[call], ast.Expr):
            why = "its greenlet is kept, and is of another class"
        self.edits[call] = edits
        return why

    def _fault_of_join(self, call: ast.Call) -> str:
        if not isinstance(self.parents[call], ast.Expr):
            return "its result is used"
        if not call.args or len(call.args) > 2 or any(isinstance(each, ast.Starred) for each in call.args):
            return "its arguments are not greenlets and a timeout"
        if any(each.arg != "timeout" for each in call.keywords):
            return "its arguments are not greenlets and a timeout"
        # A variable may also hold greenlets that are added later.
        held = isinstance(call.args[0], ast.Name | ast.Attribute)
        self.busy = set()
        if not self._is_ours(call.args[0], False) or (held and self._fault_of_variable(call.args[0], False, [])):
            return "it may wait for other objects than dhagas"
        return ""

    # ---- uses of a greenlet (single) or of a list of greenlets (not single)

    def _fault_of_value(self, node: ast.AST, single: bool, edits: list[Edit]) -> str:
        """Describe the first use that cannot be changed, or return "". Append to ``edits`` the changes that the uses
        need.
        """
        match parent := self.parents[node]:
            case ast.Expr():
                return ""
            case ast.Attribute() if single:
                return self._fault_of_method(parent, edits)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return self._fault_of_variable(target, single, edits)
            case ast.List() | ast.Tuple() if single:
                known = all(self._is_ours(each, True) for each in parent.elts)
                return self._fault_of_value(parent, False, edits) if known else "it is in a list with other objects"
            case ast.ListComp() | ast.GeneratorExp() if single and parent.elt is node:
                return self._fault_of_value(parent, False, edits)
            case ast.Call(args=[first, *_]) if parent in self.joins and first is node and not single:
                return "" if parent not in self.why else "joinall stays gevent's"
            case ast.Call(func=ast.Attribute(attr="append", value=value), args=[only]) if single and only is node:
                return self._fault_of_variable(value, False, edits)
        return f"it is used where it cannot be followed, at line {line_of(parent) or line_of(node)}"

    def _fault_of_variable(self, target: ast.AST, single: bool, edits: list[Edit]) -> str:
        if (target, single) in self.busy:
            return ""
        self.busy.add((target, single))
        variable = self.follower.variable(target)
        if variable.lost:
            return variable.lost
        for value in variable.values:
            if not self._is_put_by_us(value, single):
                return f"another value is also stored there, at line {line_of(value)}"
        for use in variable.uses:
            if why := self._fault_of_use(use, single, edits):
                return why
        return ""

    def _fault_of_use(self, node: ast.expr, single: bool, edits: list[Edit]) -> str:
        parent = self.parents[node]
        if single:
            match parent:
                case ast.Attribute():
                    return self._fault_of_method(parent, edits)
                case ast.List() | ast.Tuple():
                    return self._fault_of_value(node, True, edits)
                case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                    return ""
            return f"it is used where it cannot be followed, at line {node.lineno}"
        match parent:
            case (
                ast.For(iter=iterable, target=ast.Name() as name)
                | ast.comprehension(iter=iterable, target=ast.Name() as name)
            ) if iterable is node:
                return self._fault_of_variable(name, True, edits)
            case ast.Attribute(attr="append") if self._appends_ours(parent):
                return ""
            case ast.Call(func=ast.Name(id="len")):
                return ""
            case ast.Call(args=[first, *_]) if parent in self.joins and first is node:
                return "" if parent not in self.why else "joinall stays gevent's"
        return f"its list is used where it cannot be followed, at line {node.lineno}"

    def _fault_of_method(self, attribute: ast.Attribute, edits: list[Edit]) -> str:
        call, name = self.parents[attribute], attribute.attr
        known = isinstance(call, ast.Call) and call.func is attribute and name in METHODS
        if not known or (name != "join" and (call.args or call.keywords)):  # type: ignore[attr-defined]
            return f"its {name} is used, at line {attribute.lineno}"
        if METHODS[name] != name:
            _, end = self.text.span(attribute)
            edit = Edit(end - len(name), end, METHODS[name])
            if edit not in edits:
                edits.append(edit)
        return ""

    # ---- recognizing dhagas

    def _is_ours(self, node: ast.AST, single: bool) -> bool:
        """Return whether an expression is a dhaga or a list of dhagas after the candidates are changed."""
        if single and isinstance(node, ast.Call):
            return node in self.spawns and node not in self.why
        if node in self.asked:  # the variable's value refers to the variable itself
            return False
        self.asked.add(node)
        try:
            return self._holds_ours(node, single)
        finally:
            self.asked.remove(node)

    def _holds_ours(self, node: ast.AST, single: bool) -> bool:
        match node:
            case ast.Name() | ast.Attribute():
                variable = self.follower.variable(node)
                return not variable.lost and all(self._is_put_by_us(each, single) for each in variable.values)
            case ast.List() | ast.Tuple() if not single:
                return all(self._is_ours(each, True) for each in node.elts)
            case ast.ListComp() | ast.GeneratorExp() if not single:
                return self._is_ours(node.elt, True)
        return False

    def _is_put_by_us(self, value: ast.AST, single: bool) -> bool:
        if single and isinstance(value, ast.For | ast.comprehension):
            return self._is_ours(value.iter, False)
        return self._is_ours(value, single)

    def _appends_ours(self, attribute: ast.Attribute) -> bool:
        match self.parents[attribute]:
            case ast.Call(func=func, args=[only], keywords=[]) if func is attribute:
                return self._is_ours(only, True)
        return False


def takes_negative(call: ast.Call) -> bool:
    """Return whether an argument of a call may be below 0."""
    return any(map(may_be_negative, [*call.args, *(each.value for each in call.keywords)]))


def may_be_negative(node: ast.expr) -> bool:
    """Return whether a minus in an expression shows that its value may be below 0."""
    return any(isinstance(each, ast.USub | ast.Sub) for each in ast.walk(node))
