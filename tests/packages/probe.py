"""``python -m tests.packages.probe NAME…`` searches installed packages for hooks by which their waits could park.

A package that waits in C may offer a callback for its waits, a call in two halves around a descriptor, or a mode for
microthreads. The names of such hooks stand in its Python files, or in the symbols and strings of its compiled ones. A
row of compatibility.toml that says "blocks" names each kind that is found, and why it is of no use there (``probed``).
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import NamedTuple

KINDS = {
    "callback": ("set_wait_callback", "wait_callback", "PQsetWaitCallback", "set_waiter"),
    "halves": (
        "send_query",
        "mysql_send_query",
        "PQsendQuery",
        "SQL_ATTR_ASYNC_ENABLE",
        "dbsqlsend",
        "search_ext",
    ),
    "descriptor": ("fileno", "mysql_get_socket", "PQsocket", "dbiordesc", "rd_kafka_queue_io_event_enable", "OPT_DESC"),
    "multi": ("curl_multi_socket_action", "curl_multi_fdset"),
    "microthreads": ("gevent", "eventlet", "greenlet"),
    "coroutines": ("asyncio", "__await__"),
}
"""What a hook is called, by its kind: in Python, in a library of C, or in the strings of an extension."""

WAITS = b"PyEval_SaveThread"
"""An extension that gives the interpreter lock up waits, or computes for long: such a call can be offloaded."""

COMPILED = (".so", ".pyd", ".dylib")


class Finding(NamedTuple):
    """A name of a hook, and the file of the package in which it is found first."""

    kind: str
    name: str
    file: str


def probe(package: str) -> list[Finding]:
    """Return the hooks of an installed package, the first of each name. Raises: PackageNotFoundError."""
    found: dict[tuple[str, str], Finding] = {}
    for path, file in files_of(distribution(package)):
        text = path.read_bytes()
        for kind, names in KINDS.items():
            for name in names:
                if has_word(text, name.encode()):
                    found.setdefault((kind, name), Finding(kind, name, file))
    return sorted(found.values())


def has_word(text: bytes, word: bytes) -> bool:
    """Return whether a word is in a text. By hand: a pattern takes a second for an extension of 20 MB."""
    at = text.find(word)
    while at >= 0:
        if not is_letter(text[at - 1 : at]) and not is_letter(text[at + len(word) : at + len(word) + 1]):
            return True
        at = text.find(word, at + 1)
    return False


def is_letter(byte: bytes) -> bool:
    """Return whether a byte may be part of a name."""
    return byte.isalnum() or byte == b"_"


def kinds_of(package: str) -> set[str]:
    """Return the kinds of hooks that an installed package has names of."""
    return {finding.kind for finding in probe(package)}


def gives_lock_up(package: str) -> bool:
    """Return whether an extension of the package gives the interpreter lock up."""
    return any(is_compiled(path) and WAITS in path.read_bytes() for path, _ in files_of(distribution(package)))


def files_of(package: Distribution) -> list[tuple[Path, str]]:
    """Return the Python files and the compiled ones, libraries that the wheel brings included."""
    every = [(Path(str(package.locate_file(file))), str(file)) for file in sorted(package.files or [])]
    return [(path, file) for path, file in every if (path.suffix == ".py" or is_compiled(path)) and path.is_file()]


def is_compiled(path: Path) -> bool:
    return any(suffix in COMPILED for suffix in path.suffixes)


def report(package: str) -> str:
    """Return what was found, for a reader who decides on a verdict."""
    head = f"{package} {distribution(package).version}"
    lines = [f"  {kind}: {name}, in {file}" for kind, name, file in probe(package)]
    return "\n".join([head, *(lines or ["  no hook"]), f"  gives the interpreter lock up: {gives_lock_up(package)}"])


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(report(argument))
