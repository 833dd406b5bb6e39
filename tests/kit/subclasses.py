"""Subclasses of the classes that the patch replaces, in the source of other packages."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPLACED = {
    "threading": {
        "Thread",
        "Timer",
        "RLock",
        "Condition",
        "Event",
        "Semaphore",
        "BoundedSemaphore",
        "Barrier",
        "local",
    },
    "queue": {"Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"},
    "socket": {"socket"},
    "subprocess": {"Popen"},
    "selectors": {"DefaultSelector", "SelectSelector", "PollSelector", "EpollSelector"},
    "_multiprocessing": {"SemLock"},
}


class Subclass(NamedTuple):
    """A class. ``own``: the names of its methods and class attributes, and of attributes that it sets on ``self``."""

    name: str
    base: str
    own: frozenset[str]


def subclasses_below(root: Path, without: frozenset[str] = frozenset()) -> Iterator[tuple[str, Subclass]]:
    """Yield each subclass, after the path of its file below ``root``. ``without``: names of folders to leave out."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8", "replace") if path.exists() else ""  # a link of an installation may be dead
        if not without & {*path.parts} and "class " in text and any(module in text for module in REPLACED):
            for each in subclasses_in(text):
                yield str(path.relative_to(root)), each


def subclasses_in(text: str) -> Iterator[Subclass]:
    """Yield the direct subclasses in a file's text. A text that this Python cannot parse has none."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in REPLACED:
            names |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {f"{alias.asname or alias.name}.": (alias.name, "") for alias in node.names}
    for node in ast.walk(tree):
        for base in node.bases if isinstance(node, ast.ClassDef) else ():
            module, dot, kind = ast.unparse(base.value if isinstance(base, ast.Subscript) else base).rpartition(".")
            where, kind = (names.get(f"{module}.", ("", ""))[0], kind) if dot else names.get(kind, ("", ""))
            if kind in REPLACED.get(where, ()):
                assert isinstance(node, ast.ClassDef)
                yield Subclass(node.name, f"{where}.{kind}", frozenset(names_in(node)))


def names_in(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield each.name
        elif isinstance(each, ast.Assign):
            yield from (target.id for target in each.targets if isinstance(target, ast.Name))
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store) and ast.unparse(part.value) == "self":
            yield part.attr
