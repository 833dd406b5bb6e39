"""A Python prompt on a connection, for the backdoors of gevent and eventlet."""

from __future__ import annotations

import code
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from greenlet import getcurrent

from ..._kernel.context_manager import contextmanager

FORM: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}

STREAMS = "stdout", "stderr"

consoles: dict[Any, Any] = {}
"""For each greenlet that executes a statement, the file for the statement's output."""


def talk(sock: Any, names: dict[str, Any] | None, banner: str | None) -> None:
    """Read statements from a socket and execute them, until the client closes the connection or calls ``exit()``.

    The client gets what the statements themselves print, and no output of other microthreads.
    """
    with sock.makefile("r", **FORM) as statements, sock.makefile("w", **FORM) as answers:
        Prompt(answers, names).converse(statements, banner)


class Output:
    """Stand-in for ``sys.stdout`` or ``sys.stderr`` while statements run: each greenlet has its own console.

    ``standard``: the file of all greenlets without a console, or None.
    """

    def __init__(self, standard: Any) -> None:
        self.standard = standard

    @property
    def file(self) -> Any:
        """The file of the calling greenlet."""
        return consoles.get(getcurrent(), self.standard)

    def write(self, text: str) -> Any:
        """Write a text, or drop it if the program has no such stream."""
        return len(text) if self.file is None else self.file.write(text)

    def flush(self) -> None:
        if self.file is not None:
            self.file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@contextmanager
def printing_to(file: Any) -> Iterator[None]:
    """Write to a file what the calling greenlet prints within the block."""
    me = getcurrent()
    consoles[me] = file
    for name in STREAMS:
        stream = getattr(sys, name)
        if not isinstance(stream, Output):
            setattr(sys, name, Output(stream))
    try:
        yield
    finally:
        consoles.pop(me, None)
        if not consoles:
            for name in STREAMS:
                stream = getattr(sys, name)
                if isinstance(stream, Output):  # false if the program has replaced the stream meanwhile
                    setattr(sys, name, stream.standard)


class Prompt(code.InteractiveInterpreter):
    """Python prompt that writes its output to a file. Statements use the dict ``names`` itself, not a copy."""

    def __init__(self, file: Any, names: dict[str, Any] | None) -> None:
        super().__init__(names)
        self.file = file

    def write(self, data: str) -> None:
        self.file.write(data)
        self.file.flush()

    def converse(self, statements: Iterable[str], banner: str | None) -> None:
        """Execute the statements one after another."""
        self.write(f"{banner or f'Python {sys.version} on {sys.platform}'}\n>>> ")
        lines: list[str] = []
        try:
            for line in statements:
                lines.append(line.rstrip("\r\n"))
                with printing_to(self.file):
                    more = self.runsource("\n".join(lines), "<console>")
                if not more:
                    lines = []
                self.write("... " if more else ">>> ")
        except (SystemExit, OSError):
            return
