"""The rules of ``--rewrite``, which decide whether a use is changed. A change keeps the program's meaning, as far as
the text shows this meaning.

Each rule judges one use, and returns a Change or the reason why the use stays unchanged. Unknown uses stay unchanged.
An object is changed with all of its uses or not at all. ``Greenlets`` decides for greenlets, ``INSTANCES`` for other
objects.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from .edits import Edit, Text
from .follow import Follower, inside
from .greenlets import JOINS, SPAWNS, Greenlets, may_be_negative, takes_negative
from .names import FACES, SAME
from .uses import Module, Use

SLEEPS = {path for path, name in SAME.items() if name == "sleep"}
TIMEOUTS = {path for path, name in SAME.items() if name == "Timeout"}
WHOLE_PATCHES = {"gevent.monkey.patch_all", "eventlet.monkey_patch", "eventlet.patcher.monkey_patch"}
DROP_IN = {
    **{
        f"{library}.queue.{name}": f"dhaga.queue.{name}"
        for library in ("gevent", "eventlet")
        for name in ("Empty", "Full")
    },
    "gevent.local.local": "dhaga.threading.local",
    "eventlet.corolocal.local": "dhaga.threading.local",
}
"""Names that have the same meaning in Dhaga in any use."""

EVENT = {"set", "clear", "is_set", "isSet", "wait"}
LOCK = {"acquire", "release"}
QUEUE = {"put", "get", "put_nowait", "get_nowait", "qsize", "empty", "full", "join", "task_done"}
INSTANCES: dict[str, tuple[str, set[str]]] = {
    "gevent.event.Event": ("dhaga.threading.Event", EVENT),
    "gevent.lock.RLock": ("dhaga.threading.RLock", LOCK),
    **{
        f"{module}.{name}": (f"dhaga.threading.{name}", LOCK)
        for module in ("gevent.lock", "eventlet.semaphore", "eventlet")
        for name in ("Semaphore", "BoundedSemaphore")
    },
    **{
        f"{library}.queue.{name}": (f"dhaga.queue.{name}", QUEUE)
        for library in ("gevent", "eventlet")
        for name in ("Queue", "LifoQueue", "PriorityQueue")
    },
    "gevent.queue.JoinableQueue": ("dhaga.queue.Queue", QUEUE),
    "eventlet.Queue": ("dhaga.queue.Queue", QUEUE),
}
"""Dhaga's equivalent of each class, and the methods that mean the same in both classes. If the program calls another
method of an object, the object is not rewritten.
"""

LATE = {"TimeoutError", "settimeout", "setdefaulttimeout"}
"""Names which show that code besides the rewritten ``Timeout`` may raise the built-in TimeoutError."""


class Change(NamedTuple):
    """The change of a use. ``target`` replaces the used name and its first ``length`` attributes."""

    target: str
    length: int
    edits: list[Edit] = []  # noqa: RUF012  # never changed


class Rules:
    """Judges the uses in one module. ``whole``: whether only the patch is left of all uses of eventlet in the tree."""

    def __init__(self, module: Module, text: Text, follower: Follower, whole: bool) -> None:
        self.whole = whole
        self.module = module
        self.text = text
        self.follower = follower
        self.parents = module.scopes.parents
        self.greenlets = Greenlets(module, text, follower)
        self.rules: list[tuple[Any, Callable[[Use], Change | str]]] = [
            (SLEEPS, self._sleep),
            (WHOLE_PATCHES, self._patch),
            (SPAWNS, self._spawn),
            (JOINS, self._join),
            (TIMEOUTS, self._timeout),
            (DROP_IN, lambda use: Change(DROP_IN[use.path], self._depth(use))),
            (INSTANCES, self._instance),
        ]

    def judge(self, use: Use) -> Change | str:
        """Return the change of a use, or the reason why the use stays unchanged."""
        if use.load is None or use.binding is None:
            return "it comes from a star import" if use.load is not None else "it is a string"
        for paths, rule in self.rules:
            if use.path in paths:
                return rule(use)
        return self._face(use)

    def _depth(self, use: Use) -> int:
        assert use.load is not None
        return len(use.load.attributes)

    def _call(self, use: Use) -> ast.Call | None:
        """Return the call of the used name; None if the name is not called."""
        assert use.load is not None
        parent = self.parents[use.load.node]
        return parent if isinstance(parent, ast.Call) and parent.func is use.load.node else None

    def _is_statement(self, call: ast.AST) -> bool:
        return isinstance(self.parents[call], ast.Expr)

    # ---- sleep, patch, modules

    def _sleep(self, use: Use) -> Change | str:
        call = self._call(use)
        if call is not None and (len(call.args) > 1 or any(each.arg != "seconds" for each in call.keywords)):
            return "it is called with arguments that only gevent has"
        if call is not None and takes_negative(call):
            return "its seconds may be negative, which only gevent and eventlet accept"
        return Change("dhaga.sleep", self._depth(use))

    def _patch(self, use: Use) -> Change | str:
        if use.package == "eventlet" and not self.whole:
            return "eventlet's is_monkey_patched needs it as long as eventlet is used"
        call = self._call(use)
        if call is None or call.args or call.keywords:
            return "it patches only some modules, but Dhaga's patch replaces all"
        if not self._is_statement(call):
            return "its result is used"
        return Change("dhaga.monkey.patch", self._depth(use))

    def _face(self, use: Use) -> Change | str:
        """Return the change that imports a module's names from Dhaga's module, or the reason why the use stays
        unchanged.
        """
        assert use.load is not None and use.binding is not None and use.binding.path is not None
        parts = use.path.split(".")
        imported = use.binding.path.count(".") + 1
        for length in range(len(parts), 1, -1):
            module = ".".join(parts[:length])
            if module not in FACES:
                continue
            if length == len(parts):
                return "the module is passed on, or its names are computed"
            if not has_public(FACES[module], parts[length]):
                return f"{FACES[module]} has no {parts[length]}"
            if any(part.startswith("_") for part in parts[length:]):
                return "a private name of it is used"
            if isinstance(self.parents[use.load.node], ast.ClassDef):
                return "a class is derived from it"
            if length < imported:  # from gevent.socket import create_connection
                return Change(f"{FACES[module]}.{parts[length]}", 0)
            return Change(FACES[module], length - imported)
        return "its counterpart has another form"

    # ---- greenlets

    def _spawn(self, use: Use) -> Change | str:
        call = self._call(use)
        why = self.greenlets.why_not_spawn(call) if call is not None else "it is passed on"
        if why or call is None:
            return why
        return Change(f"dhaga.{SPAWNS[use.path]}", self._depth(use), self.greenlets.edits_of(call))

    def _join(self, use: Use) -> Change | str:
        call = self._call(use)
        why = self.greenlets.why_not_join(call) if call is not None else "it is passed on"
        if why or call is None:
            return why
        return Change("dhaga.wait", self._depth(use), self.greenlets.edits_of(call))

    # ---- timeouts

    def _timeout(self, use: Use) -> Change | str:
        assert use.load is not None
        node: ast.AST = use.load.node
        parent = self.parents[node]
        if isinstance(parent, ast.ExceptHandler):
            why = self._why_not_try(self.parents[parent], node)
            return why or Change("TimeoutError", self._depth(use))
        call = self._call(use)
        if call is None or not isinstance(self.parents[call], ast.withitem):
            return "it is not a with block, as dhaga.Timeout must be"
        if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
            return "its arguments are computed"
        item = self.parents[call]
        block = self.parents[item]
        if not isinstance(block, ast.With) or item.optional_vars is not None:  # type: ignore[attr-defined]
            return "its object is used"
        return self._timeout_block(use, call, block)

    def _timeout_block(self, use: Use, call: ast.Call, block: ast.With) -> Change | str:
        error = self._error_of(call)
        if not call.args or len(call.args) + len(call.keywords) > 2 or isinstance(error, str):
            return "its arguments are not seconds and an error"
        if may_be_negative(call.args[0]):
            return "its seconds may be negative"
        if error is None:
            tried = self.parents[block]
            if not isinstance(tried, ast.Try):
                return "its error leaves the block, and is not a TimeoutError: the handler is unknown"
            why = self._why_not_try(tried, None)
            return why or Change("dhaga.Timeout", self._depth(use))
        if any(isinstance(each, ast.Try | ast.TryStar | ast.Yield | ast.YieldFrom) for each in inside(block)):
            return "the block has a try, in which gevent's error and Dhaga's cancel differ"
        if is_false(error):
            _, start = self.text.span(call.args[0])
            _, end = self.text.span(call)
            if self.text.has_comment(start, end):
                return "there is a comment among its arguments"
            return Change("dhaga.move_on_after", self._depth(use), [Edit(start, end - 1, "")])
        if call.keywords or not looks_like_error(error):
            return "its second argument may not be an error"
        return Change("dhaga.Timeout", self._depth(use))

    def _error_of(self, call: ast.Call) -> ast.expr | str | None:
        """Return the error argument of a Timeout, None without such an argument, or a text if there are other
        arguments.
        """
        if len(call.args) == 2 and not call.keywords:
            return call.args[1]
        if not call.keywords:
            return None
        return call.keywords[0].value if call.keywords[0].arg == "exception" else "another argument"

    def _why_not_try(self, tried: ast.AST, caught: ast.AST | None) -> str:
        """Return why a ``try`` around a Timeout's block cannot catch TimeoutError instead of the Timeout; "" if it can.

        ``caught``: the judged use, if it is the exception of a handler; None if the judged use is the Timeout of the
        block.
        """
        if not isinstance(tried, ast.Try):
            return "it is caught among other errors"
        handler = tried.handlers[0] if tried.handlers else None
        if handler is None or handler.type is None or self._path_at(handler.type) not in TIMEOUTS:
            return "its error leaves the block, and is not a TimeoutError: the handler is unknown"
        if handler.name is not None or (caught is not None and handler.type is not caught):
            return "the error is used, or caught after others"
        match tried.body:
            case [ast.With(items=[ast.withitem(context_expr=ast.Call() as call, optional_vars=None)]) as block]:
                pass
            case _:
                return "the try contains more than the block of one Timeout"
        if self._path_at(call.func) not in TIMEOUTS or len(call.args) != 1 or call.keywords:
            return "the try contains another Timeout"
        return self._why_ambiguous(block)

    def _why_ambiguous(self, block: ast.With) -> str:
        """Return what else in a block may raise TimeoutError or catch the Timeout; "" if nothing does."""
        if hasattr(builtins, "TimeoutError") and any(
            "TimeoutError" in each.bindings for each in self.module.scopes.all
        ):
            return "the module uses the name TimeoutError for something else"
        names = {each.id for each in ast.walk(self.module.scopes.tree) if isinstance(each, ast.Name)}
        if (names | self.follower.attributes.keys()) & LATE:
            return "the file has other timeouts, which also raise TimeoutError"
        for each in inside(block):
            if isinstance(each, ast.Yield | ast.YieldFrom):
                return "the block yields"
            if isinstance(each, ast.keyword) and each.arg == "timeout":
                return "a call in the block has its own timeout, which may also raise TimeoutError"
            if isinstance(each, ast.expr) and self._path_at(each) in TIMEOUTS:
                return "there is another Timeout in the block"
        return ""

    def _path_at(self, node: ast.AST) -> str:
        return next((use.path for use in self.module.uses if use.load is not None and use.load.node is node), "")

    # ---- events, locks, queues

    def _instance(self, use: Use) -> Change | str:
        call = self._call(use)
        target, methods = INSTANCES[use.path]
        if call is None:
            kept = "the class is passed on, derived from, or compared with"
            return Change(target, self._depth(use)) if self._is_annotation(use) else kept
        if why := why_not_plain(call, methods):
            return why
        parent = self.parents[call]
        node = parent.targets[0] if isinstance(parent, ast.Assign) else getattr(parent, "target", parent)
        why = self._why_not_followed(node, use.path, methods)
        return why or Change(target, self._depth(use))

    def _is_annotation(self, use: Use) -> bool:
        assert use.load is not None
        node: ast.AST = use.load.node
        while isinstance(parent := self.parents[node], ast.Subscript | ast.BinOp | ast.Tuple):
            node = parent
        return node in (getattr(parent, "annotation", None), getattr(parent, "returns", None))

    def _why_not_followed(self, node: ast.AST, path: str, methods: set[str]) -> str:
        variable = self.follower.variable(node)
        if variable.lost:
            return variable.lost
        for value in variable.values:
            if not isinstance(value, ast.Call) or self._path_at(value.func) != path:
                return f"another value is also stored there, at line {getattr(value, 'lineno', 0)}"
        for each in variable.uses:
            if not self._is_known_use(each, methods):
                return f"it is passed on, or used otherwise, at line {each.lineno}"
        return ""

    def _is_known_use(self, node: ast.expr, methods: set[str]) -> bool:
        match parent := self.parents[node]:
            case ast.Attribute(attr=name):
                return name in methods and isinstance(parent.ctx, ast.Load) and self._means_the_same(parent)
            case ast.withitem(optional_vars=None):
                return methods is LOCK
            case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
                return True
        return False

    def _means_the_same(self, method: ast.Attribute) -> bool:
        """Return whether a method keeps its meaning with the arguments of its call, and with the use of its result."""
        call = self.parents[method]
        if not (isinstance(call, ast.Call) and call.func is method):
            return method.attr not in ("acquire", "join", "release")  # its later arguments are unknown
        match method.attr:
            case "release":  # Dhaga's returns None
                return self._is_statement(call)
            case "join":  # Dhaga's takes no timeout, and returns None
                return self._is_statement(call) and not (call.args or call.keywords)
            case "acquire":
                return is_plain_acquire(call)
        return not takes_negative(call)


def is_plain_acquire(call: ast.Call) -> bool:
    """Return whether ``acquire`` has no timeout, or a number of seconds, 0 or more, for a call that blocks.

    The classes differ for all other timeouts: None, -1, and a timeout of a call that does not block.
    """
    named = {each.arg: each.value for each in call.keywords}
    given = dict(zip(("blocking", "timeout"), call.args, strict=False)) | named
    if len(given) < len(call.args) + len(call.keywords) or not given.keys() <= {"blocking", "timeout"}:
        return False
    if any(isinstance(each, ast.Starred) for each in call.args):
        return False
    blocking, timeout = given.get("blocking"), given.get("timeout")
    if timeout is None:
        return True
    blocks = blocking is None or (isinstance(blocking, ast.Constant) and blocking.value is True)
    return blocks and isinstance(timeout, ast.Constant) and type(timeout.value) in (int, float)


def why_not_plain(call: ast.Call, methods: set[str]) -> str:
    """Return why the arguments of a class mean something else in Dhaga's class; "" if they mean the same."""
    keyword = "maxsize" if methods is QUEUE else "value" if methods is LOCK else None
    values = [*call.args, *(each.value for each in call.keywords)]
    if len(values) > 1 or any(each.arg != keyword for each in call.keywords):
        return "it has arguments that only gevent or eventlet has"
    if any(isinstance(each, ast.Starred) for each in values):
        return "its arguments are unknown"
    if methods is QUEUE and values:
        size = values[0]
        if not (isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 0):
            return "its size may be 0 or None, which means something else for Dhaga's queue"
    return ""


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def looks_like_error(node: ast.expr) -> bool:
    """Return whether an argument, judging by its name, is an exception class or a call of such a class."""
    if isinstance(node, ast.Call):
        node = node.func
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name[:1].isupper() and not name.isupper()


def has_public(module: str, name: str) -> bool:
    return not name.startswith("_") and hasattr(import_module(module), name)
