"""The client of the inspector: one connection to a process. Its errors explain how to start a missing inspector.

The client checks that the requested process answers at the endpoint; see ``endpoint.py``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from .endpoint import connect
from .not_answered import NotAnswered, ProcessEnded

ANSWER_SECONDS = 20.0
"""Maximum number of seconds to wait for an answer; a dump of 100,000 dhagas takes a few seconds."""


class InspectorClient:
    """A connection to the inspector of a process; also a context manager."""

    def __init__(self, pid: int) -> None:
        """Connect. Raises: NotAnswered."""
        self.pid = pid
        self.connect()

    def connect(self) -> None:
        self.socket = connect(self.pid)
        self.socket.settimeout(ANSWER_SECONDS)
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send one query and return its answer. After a timeout, open a new connection, because a late answer would be
        taken for the answer to the next query.

        Blocks: at most ``ANSWER_SECONDS``. Raises: NotAnswered, also if the query is refused; ProcessEnded.
        """
        query = json.dumps({"ask": what, **arguments}).encode()
        if self.file.closed:
            self.reconnect()
        try:
            self.socket.sendall(query + b"\n")
            line = self.file.readline()
        except TimeoutError:
            self.close()
            raise NotAnswered(
                f"process {self.pid} has not answered for {ANSWER_SECONDS:g} s: it is stopped, or a C call in it holds "
                "the interpreter lock"
            ) from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise ProcessEnded(f"process {self.pid} has ended, or no longer answers")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NotAnswered(answer["error"])
        return answer

    def reconnect(self) -> None:
        try:
            self.connect()
        except NotAnswered as error:
            raise ProcessEnded(str(error)) from None


# ---- for the commands of ``python -m dhaga``


def exit_status(program: str, command: Callable[[], object]) -> int:
    """Run a command and return its exit status. An error is printed in one line."""
    try:
        command()
        sys.stdout.flush()
    except NotAnswered as error:
        print(f"{program}: {printable(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the pager has exited; the next line keeps the flush at exit from failing
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def printable(text: str) -> str:
    """Replace with ``?`` each character that a terminal would interpret or could not show."""
    return "".join(each if each.isprintable() else "?" for each in text)
