"""The client of the inspector: one connection to a process, and errors that say what to do without an inspector.

The client trusts a socket only if no other user can enter its directory, and if its other end is the requested process
(``SO_PEERCRED``). It sends no query to a socket of another process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..._kernel import originals
from . import socket_path

ANSWER_SECONDS = 20.0
"""Longest wait for an answer; a dump of 100,000 dhagas takes a few seconds."""

ADVICE = (
    "start it with DHAGA_DEBUG=1 in its environment, or call dhaga.debug.inspect() in it; a process started with "
    "DHAGA_DUMP_SIGNAL=USR1 writes a dump at kill -USR1"
)


class NotAnswered(Exception):
    """The process cannot be queried, or does not answer; the text gives the reason, and what to do."""


class ProcessEnded(NotAnswered):
    """The process has ended."""


class InspectorClient:
    """A connection to the inspector of a process; a context manager."""

    def __init__(self, pid: int) -> None:
        """Connect. Raises: NotAnswered."""
        self.pid = pid
        self.socket = find_and_connect(pid)
        self.socket.settimeout(ANSWER_SECONDS)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        self.socket.close()

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Send one query and return its answer.

        Blocks: ``ANSWER_SECONDS`` at most. Raises: NotAnswered, also if the query is refused; ProcessEnded.
        """
        query = json.dumps({"ask": what, **arguments}).encode()
        try:
            self.socket.sendall(query + b"\n")
            line = self.file.readline()
        except TimeoutError:
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


def find_and_connect(pid: int) -> socket.socket:
    """Connect to the inspector of a process. Raises: NotAnswered."""
    uid = owner_of(pid)
    if uid not in (os.geteuid(), uid if os.geteuid() == 0 else -1):
        raise NotAnswered(f"process {pid} belongs to user {uid}: run this command as that user, or as root")
    for folder in socket_path.folders(uid):
        path = folder / socket_path.name_of(pid)
        if path.is_socket():
            return connect(path, pid, uid)
    raise NotAnswered(f"process {pid} has no inspector: {ADVICE}")


def owner_of(pid: int) -> int:
    """Return the user ID of a process. Raises: NotAnswered if there is no such process."""
    if not socket_path.lives(pid):
        raise NotAnswered(f"there is no process {pid}")
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:  # no /proc here
        return os.geteuid()


def connect(path: Path, pid: int, uid: int) -> socket.socket:
    """Connect to a socket, and verify the process at the other end. Raises: NotAnswered."""
    connection = originals.Socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        if hasattr(socket, "SO_PEERCRED") and socket_path.peer(connection)[:2] != (pid, uid):
            raise NotAnswered(f"a process other than {pid} of user {uid} answers at {path}, so no query is sent to it")
        return connection
    except ConnectionRefusedError:
        connection.close()
        raise NotAnswered(
            f"process {pid} has no inspector, {path} is left by an earlier process with that id: {ADVICE}"
        ) from None
    except PermissionError:
        connection.close()
        raise NotAnswered(
            f"user {os.geteuid()} may not use {path}: run this command as the user of process {pid}"
        ) from None
    except BaseException:
        connection.close()
        raise


# ---- for the commands of ``python -m dhaga``


def exit_status(program: str, command: Callable[[], object]) -> int:
    """Run a command. Returns: its exit status; an error is printed in one line."""
    try:
        command()
        sys.stdout.flush()
    except NotAnswered as error:
        print(f"{program}: {printable(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the pager has exited; the flush at exit must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def printable(text: str) -> str:
    """Replace characters that a terminal would interpret or could not show with ``?``."""
    return "".join(each if each.isprintable() else "?" for each in text)
