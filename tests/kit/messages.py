"""The messages of the package's source, and which of them the errors index lists.

A message is the text of an error, with … for each inserted value. The index lists the message under an exception that
a user can name. An error that only Dhaga sees has no text. Four kinds of messages are not listed:

- The exception is private, and derives only from ``Exception``: Dhaga catches it.
- The standard library raises the same text, with the same meaning.
- The message belongs to the contract of gevent or eventlet (``dhaga.compat``), whose pages describe their arguments.
  But messages about their features that Dhaga lacks are listed.
- libpq has the same message for its own waits.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
COMMANDS = (
    "dhaga._cli",
    "dhaga.__main__",
    *(f"dhaga.debug._remote.{each}" for each in ("client", "endpoint", "unix_socket", "loopback")),
)
"""Modules of the commands. A command prints the text of their private exceptions as its last line."""

OF_LIBPQ = "dhaga.integrations._connect_timeout"

OWN_OF_COMPAT = {"ImportError", "NotImplementedError", "RuntimeError", "ModuleNotFoundError"}
"""Exceptions of ``dhaga.compat`` that report differences from gevent and eventlet."""

IGNORED = {"Exception", "BaseException"}


class Message(NamedTuple):
    """A message in the source. ``heading``: the exception under which it is listed; None for an internal message."""

    heading: str | None
    text: str
    module: str


class Source(NamedTuple):
    """A module of ``dhaga``. ``package``: whether the module is an ``__init__.py``."""

    name: str
    tree: ast.Module
    package: bool


@cache
def sources() -> tuple[Source, ...]:
    package = ROOT / "dhaga"
    return tuple(
        Source(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"),
            ast.parse(path.read_text()),
            path.name == "__init__.py",
        )
        for path in sorted(package.rglob("*.py"))
    )


@cache
def messages() -> tuple[Message, ...]:
    """Return each message, once for each heading."""
    found = {}
    for source in sources():
        for error, text in _raised(source.tree):
            message = Message(heading_of(error, source.name), text, source.name)
            found.setdefault(message[:2], message)
    return tuple(sorted(found.values(), key=lambda each: (each.heading or "", each.text)))


def listed(message: Message) -> bool:
    """Return whether the index lists a message; see the docstring of this module."""
    if message.heading is None or in_standard_library(message.text):
        return False
    if message.module.startswith("dhaga.compat"):
        return message.heading in OWN_OF_COMPAT
    return message.module != OF_LIBPQ


# ---- the texts


def _raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the exception and text of each error that is raised, or returned by a function that makes errors."""
    makers = _makers(tree)
    for node in ast.walk(tree):
        made = node.exc if isinstance(node, ast.Raise) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and makers.get(node.func.id) == "NoReturn":
            made = node
        if isinstance(made, ast.Call):
            error = ast.unparse(made.func).rpartition(".")[2]
            if error in HTTP_REFUSALS or makers.get(error) == "NoReturn" or error[:1].isupper():
                yield from _text_of(error, made, makers)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and makers.get(function.name, "NoReturn") != "NoReturn":
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
                    yield from _text_of(ast.unparse(node.value.func).rpartition(".")[2], node.value, makers)


HTTP_REFUSALS = {"bad", "too_large"}
"""Functions that make a ``Refusal`` with the text that is passed to them."""


def _makers(tree: ast.AST) -> dict[str, str]:
    """Return the functions of a module that make an error, or exit, with their annotated return types."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            returned = ast.unparse(node.returns).rpartition(".")[2]
            if returned == "NoReturn" or returned in exceptions() or _is_builtin(returned):
                found[node.name] = returned
    return found


def _text_of(error: str, call: ast.Call, makers: dict[str, str]) -> Iterator[tuple[str, str]]:
    texts = [text for text in map(template, call.args) if text is not None]
    if error in HTTP_REFUSALS:
        error = "Refusal"
    elif makers.get(error) == "NoReturn":
        error = "SystemExit"
    elif error == "Refusal":
        texts = texts[1:]  # after the status
    text = " ".join(texts[0].split()) if texts else ""
    if re.search(r"\w", text):
        yield error, text


def template(node: ast.expr) -> str | None:
    """Return the text of an expression, with … for inserted values; None if the expression is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(each.value if isinstance(each, ast.Constant) else "…" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (template(node.left) or "…") + (template(node.right) or "…")
    return None


# ---- the exceptions


@cache
def exceptions() -> dict[str, tuple[str, ...]]:
    """Return the bases of each exception class of the package, by the name of the class."""
    return {
        node.name: tuple(ast.unparse(base).rpartition(".")[2] for base in node.bases)
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and node.bases and _derives_from_exception(node.name, node.bases)
    }


def _derives_from_exception(name: str, bases: list[ast.expr]) -> bool:
    return any(re.search(r"(Error|Exception|Exit|Cancelled|Refusal|NotAnswered)$", ast.unparse(base)) for base in bases)


@cache
def public_names() -> frozenset[str]:
    """Return the names of classes that a public module defines, or that a public ``__init__.py`` imports."""
    names = set()
    for source in sources():
        for node in source.tree.body if "._" not in source.name else ():
            if isinstance(node, ast.ImportFrom) and source.package:
                names |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.ClassDef):
                names.add(node.name)
    return frozenset(names)


def heading_of(error: str, module: str) -> str | None:
    """Return the first public class among an exception and its ancestors; None for an internal exception."""
    if error == "ArgumentTypeError" or (error in exceptions() and module.startswith(COMMANDS)):
        return "SystemExit"
    if error not in exceptions():
        return error  # built in, or of another package
    if error in public_names():
        return error
    found = [heading_of(base, module) for base in exceptions()[error] if base not in IGNORED]
    return found[0] if found else None


def is_public(error: str) -> bool:
    """Return whether a user can import an exception: it is built in, public here, or of another package."""
    return error in public_names() or error not in exceptions()


def _is_builtin(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


# ---- the standard library


def in_standard_library(text: str) -> bool:
    """Return whether a module of the standard library, in Python or in C, has the same text."""
    return text in _standard_texts() or (
        "…" not in text and len(text) > SHORT and text.encode() in _standard_binaries()
    )


SHORT = 8
"""Maximum length of a text that a binary may contain by chance."""

MODULES = (
    *(
        "_pyio",
        "_threading_local",
        "asyncio",
        "concurrent",
        "contextlib",
        "importlib",
        "multiprocessing",
        "queue",
        "selectors",
    ),
    *("signal", "socket", "ssl", "subprocess", "threading", "typing", "weakref"),
)
"""The modules whose contracts Dhaga follows."""


@cache
def _standard_texts() -> frozenset[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    paths = [path for name in MODULES for path in (folder / f"{name}.py", *(folder / name).rglob("*.py"))]
    trees = (ast.parse(path.read_text(errors="replace")) for path in paths if path.is_file())
    calls = (node.exc for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Raise))
    texts = (template(each) for call in calls if isinstance(call, ast.Call) for each in call.args)
    return frozenset(" ".join(text.split()) for text in texts if text)


@cache
def _standard_binaries() -> bytes:
    """Return the bytes of the interpreter, its library and the extension modules."""
    names = sysconfig.get_config_vars("LIBDIR", "LDLIBRARY")
    library = Path(*map(str, names))
    extensions = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    files = [Path(sys.executable).resolve(), library, *extensions]
    return b"\0".join(file.read_bytes() for file in files if file.is_file() and file.suffix != ".a")
