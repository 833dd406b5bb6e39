"""Finds the uses of gevent, eventlet, threading and similar packages in a module: imports, names, patches, options."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from .exports import Exports
from .files import Source
from .names import IMITATED, LIBRARIES, STANDARD, counterpart_of, not_imitated
from .scopes import Binding, Load, Scopes

HINT = re.compile(rb"gevent|eventlet|threading|greenlet|psycogreen")
"""A file is parsed if it contains one of these parts of the names in LIBRARIES, or imports a library's object from
another file.
"""

PATCHES = re.compile(r"gevent\.monkey\.patch_\w+|eventlet\.(?:patcher\.)?monkey_patch")
WORKERS = re.compile(
    r"(?:-k|-P|--pool=|--worker-class=)?(?:gevent|eventlet|gevent_(?:py)?wsgi|"
    r"(?:gunicorn\.workers\.g(?:gevent|eventlet)|geventwebsocket\.gunicorn\.workers)[.:]\w+)"
)
"""A string or a part of a command line that selects a worker."""

MODULE_NAME = re.compile(rf"(?:{'|'.join(IMITATED)})(?:\.\w+)*")
GUNICORN = "dhaga.integrations.gunicorn.Worker, or the name dhaga under python -m dhaga -m gunicorn"
CELERY = "TaskPool of dhaga.integrations.celery, or -P dhaga under python -m dhaga -m celery"
OPTIONS = {
    **dict.fromkeys(("worker_class", "-k", "--worker-class"), GUNICORN),
    **dict.fromkeys(("worker_pool", "CELERYD_POOL", "CELERY_WORKER_POOL", "pool", "-P", "--pool"), CELERY),
    "async_mode": "threading",
    **dict.fromkeys(("install_requires", "extras_require", "tests_require"), "dhaga"),
}
"""For each option, the value to use instead."""

COMPARED = "=="
IMPORTING = {COMPARED, "import_module", "__import__", "find_spec", "importorskip", "patch", "setattr"}
"""Functions whose argument is the name of a module or of an object in it. COMPARED stands for a comparison, such as
``"gevent" in sys.modules``.
"""


class Use(NamedTuple):
    """One use. ``kind`` is import, name, patch, option or text; ``load`` is the loaded name, if any."""

    kind: str
    path: str
    node: ast.AST
    counterpart: str
    differs: str
    note: str = ""
    load: Load | None = None
    binding: Binding | None = None

    @property
    def package(self) -> str:
        return self.path.partition(".")[0]

    @property
    def is_replaced(self) -> bool:
        """Whether this use sets or deletes the named object."""
        return self.load is not None and isinstance(getattr(self.load.node, "ctx", None), ast.Store | ast.Del)

    @property
    def as_it_stands(self) -> str:
        """The reason why the use does not run unchanged under ``--as``; "" if it does."""
        return "" if self.kind == "option" else not_imitated(self.path)


class Module:
    """A parsed file, with its uses in the order of lines. Raises: SyntaxError, ValueError, RecursionError."""

    def __init__(self, source: Source, exports: Exports | None = None) -> None:
        self.source = source
        self.exports = exports or Exports()
        tree = ast.parse(source.text, source.file)
        self.scopes = Scopes(tree, self._path_of)
        found = [*self._imports(), *self._names(), *strings(self.scopes)]
        self.uses = sorted(found, key=lambda use: (use.node.lineno, use.node.col_offset))  # type: ignore[attr-defined]

    def replaced(self) -> Iterator[str]:
        """Yield the paths that this module may replace, for example in tests."""
        for each in self.uses:
            if each.note in ("in patch()", "in setattr()") or each.is_replaced:
                yield each.path
            parent = self.scopes.parents.get(each.node)
            match parent:  # setattr(gevent, "sleep", …), mock.patch.object(gevent, "sleep")
                case ast.Call(args=[first, ast.Constant(value=str(name)), *_]) if first is each.node:
                    yield f"{each.path}.{name}"

    def _path_of(self, node: ast.AST, alias: ast.alias) -> str | None:
        if isinstance(node, ast.Import):
            root = alias.name.partition(".")[0]
            return (alias.name if alias.asname else root) if root in LIBRARIES else None
        assert isinstance(node, ast.ImportFrom)
        if not node.level and (node.module or "").partition(".")[0] in LIBRARIES:
            return f"{node.module}.{alias.name}"
        return self.exports.path_of(self.source.file, node, alias.name)

    def _imports(self) -> Iterator[Use]:
        for node in self.scopes.imports:
            for alias in node.names:
                path = self._path_of(node, alias)
                if path is not None:
                    full = alias.name if isinstance(node, ast.Import) else path.removesuffix(".*")
                    note = "all of its names" if alias.name == "*" else ""
                    if isinstance(node, ast.ImportFrom) and (node.level or not is_library(node.module)):
                        note = f"through {'.' * node.level}{node.module or ''}"
                    yield use("import", full, alias, note)

    def _names(self) -> Iterator[Use]:
        starred = {name: module for star in self.scopes.stars for name, module in names_of_star(star).items()}
        for load in self.scopes.loads:
            home = load.scope.home_of(load.name.id)
            if home is None:
                if load.name.id in starred:
                    path = ".".join((starred[load.name.id], load.name.id, *load.attributes))
                    yield use(kind_of(path), path, load.node, "by a star import", load)
                continue
            bindings = home.bindings[load.name.id]
            binding = next((each for each in bindings if each.path is not None), None)
            if binding is not None and binding.path is not None:
                path = ".".join((binding.path, *load.attributes))
                note = "" if is_certain(bindings) else "the name may also mean something else"
                yield use(kind_of(path), path, load.node, note, load, binding)


def use(
    kind: str, path: str, node: ast.AST, note: str = "", load: Load | None = None, binding: Binding | None = None
) -> Use:
    found = counterpart_of(path)
    return Use(kind, path, node, found.text, found.differs, note, load, binding)


def kind_of(path: str) -> str:
    return "patch" if PATCHES.fullmatch(path) else "name"


def is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def is_certain(bindings: list[Binding]) -> bool:
    """Return whether a name has the same meaning in all uses: all bindings are unconditional imports of one object."""
    return len({each.path for each in bindings}) == 1 and not any(each.guarded for each in bindings)


@cache
def public_names(module: str) -> tuple[str, ...]:
    """Return the names that a star import of a library's module binds, as far as Dhaga knows them."""
    if module in STANDARD:
        return tuple(threading.__all__)
    if not_imitated(module):
        return ()
    found: Any = import_module(f"dhaga.compat.{module}")
    return tuple(getattr(found, "__all__", [name for name in dir(found) if not name.startswith("_")]))


def names_of_star(node: ast.ImportFrom) -> dict[str, str]:
    if node.level or node.module is None or not is_library(node.module):
        return {}
    return dict.fromkeys(public_names(node.module), node.module)


# ---- strings


def strings(scopes: Scopes) -> Iterator[Use]:
    """Yield options that select a worker or name a requirement, and module names in comparisons and arguments."""
    for node in scopes.texts:
        text = str(node.value)
        if not ("gevent" in text or "eventlet" in text):
            continue
        key = key_of(node, scopes.parents)
        library = "eventlet" if "eventlet" in text else "gevent"
        if key in OPTIONS and (WORKERS.fullmatch(text) or is_requirement(key, text)):
            yield Use("option", f"{library} as {key}", node, OPTIONS[key], "")
        elif "=" in text and text.partition("=")[0] in OPTIONS and WORKERS.fullmatch(text):
            yield Use("option", f"{library} as {text}", node, OPTIONS[text.partition("=")[0]], "")
        elif MODULE_NAME.fullmatch(text) and key in IMPORTING:
            yield use("text", text, node, "in a comparison" if key == COMPARED else f"in {key}()")


def is_requirement(key: str, text: str) -> bool:
    return key.endswith("_require") | key.endswith("_requires") and bool(re.match(r"(?:gevent|eventlet)\b(?!-)", text))


def key_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    """Return the name of the option, variable, key or function to which a string belongs."""
    parent = parents.get(node)
    match parent:
        case ast.keyword(arg=str(name)):
            return name
        case ast.Assign(targets=[target, *_]):
            return last_name(target)
        case ast.AnnAssign(target=target):
            return last_name(target)
        case ast.Dict():
            index = next((i for i, value in enumerate(parent.values) if value is node), None)
            key = None if index is None else parent.keys[index]
            return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
        case ast.List() | ast.Tuple():
            index = next(i for i, each in enumerate(parent.elts) if each is node)
            before = parent.elts[index - 1] if index else None
            if isinstance(before, ast.Constant) and before.value in OPTIONS:
                return str(before.value)
            return key_of(parent, parents)
        case ast.Compare():
            return COMPARED
        case ast.Call():
            return last_name(parent.func)
    return ""


def last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""
