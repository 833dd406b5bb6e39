"""``gevent.backdoor``: BackdoorServer, a prompt of Python over TCP in the running program."""

from __future__ import annotations

import code
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from .server import StreamServer

__all__ = ["BackdoorServer"]


class BackdoorServer(StreamServer):
    """Gives each client a prompt of Python: a way in for all who reach the address. ``locals``: the names it has.

    What a statement prints goes to the client; while it parks, the prints of other greenlets do, too.
    """

    def __init__(
        self, listener: Any, locals: dict[str, Any] | None = None, banner: str | None = None, **options: Any
    ) -> None:
        super().__init__(listener, **options)
        self.locals = locals or {}
        self.banner = banner

    def handle(self, sock: Any, address: Any) -> None:
        """Read statements and execute them, until the client closes or calls ``exit()``."""
        form: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": "\n"}
        with sock.makefile("r", **form) as statements, sock.makefile("w", **form) as answers:
            Prompt(answers, {"__name__": "__console__", **self.locals}).converse(statements, self.banner)


class Prompt(code.InteractiveInterpreter):
    """Writes to a file what statements print."""

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
