"""A Python prompt on a connection, for the backdoors of gevent and eventlet."""

from __future__ import annotations

import code
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

FORM: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}


def talk(sock: Any, names: dict[str, Any] | None, banner: str | None) -> None:
    """Read statements from a socket and execute them, until the client closes or calls ``exit()``.

    The client gets the output of a statement; while the statement parks, also the output of other microthreads.
    """
    with sock.makefile("r", **FORM) as statements, sock.makefile("w", **FORM) as answers:
        Prompt(answers, {"__name__": "__console__", **(names or {})}).converse(statements, banner)


class Prompt(code.InteractiveInterpreter):
    """Prompt that prints to a file."""

    def __init__(self, file: Any, names: dict[str, Any]) -> None:
        super().__init__(names)
        self.file = file

    def write(self, data: str) -> None:
        self.file.write(data)
        self.file.flush()

    def converse(self, statements: Iterable[str], banner: str | None) -> None:
        """Execute one statement after the other."""
        self.write(f"{banner or f'Python {sys.version} on {sys.platform}'}\n>>> ")
        lines: list[str] = []
        try:
            for line in statements:
                lines.append(line.rstrip("\r\n"))
                with redirect_stdout(self.file), redirect_stderr(self.file):
                    more = self.runsource("\n".join(lines), "<console>")
                if not more:
                    lines = []
                self.write("... " if more else ">>> ")
        except (SystemExit, OSError):
            return
