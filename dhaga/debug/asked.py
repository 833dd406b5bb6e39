"""Asked from outside: the other end of an inspector's socket, and what is to be said where there is none."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dhaga.kernel import originals

from . import places

ANSWER_SECONDS = 20.0
"""Longest wait for an answer; of 100,000 dhagas a dump takes some seconds."""


ADVICE = (
    "start it with DHAGA_DEBUG=1 in its environment, or have it call dhaga.debug.inspect(); one started with "
    "DHAGA_DUMP_SIGNAL=USR1 writes a dump at kill -USR1"
)


class NotAnswered(Exception):
    """A process cannot be asked, or does not answer; says why, and what to do."""


class Ended(NotAnswered):
    """The process has ended."""


class Line:
    """A connection to the inspector of a process."""

    def __init__(self, pid: int) -> None:
        """Connect. Raises: NotAnswered."""
        self.pid = pid
        self.socket = connection_to(pid)
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
        """Ask, and wait for the answer. Raises: NotAnswered, also if it was refused."""
        question = json.dumps({"ask": what, **arguments}).encode()
        try:
            self.socket.sendall(question + b"\n")
            line = self.file.readline()
        except TimeoutError:
            raise NotAnswered(
                f"process {self.pid} has not answered for {ANSWER_SECONDS:g} s: it is stopped, or a C call in it holds "
                "the interpreter lock"
            ) from None
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            raise Ended(f"process {self.pid} has ended, or answers no more")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NotAnswered(answer["error"])
        return answer


def connection_to(pid: int) -> socket.socket:
    """Return a connection to the inspector of a process. Raises: NotAnswered."""
    uid = user_of(pid)
    if uid not in (os.geteuid(), uid if os.geteuid() == 0 else -1):
        raise NotAnswered(f"process {pid} belongs to user {uid}: ask as that user, or as root")
    for folder in places.folders(uid):
        path = folder / places.name_of(pid)
        if path.is_socket():
            return connected(path, pid, uid)
    raise NotAnswered(f"process {pid} has no inspector: {ADVICE}")


def user_of(pid: int) -> int:
    """Return whose a process is. Raises: NotAnswered if there is none."""
    if not places.lives(pid):
        raise NotAnswered(f"there is no process {pid}")
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:  # no /proc here
        return os.geteuid()


def connected(path: Path, pid: int, uid: int) -> socket.socket:
    """Connect to a socket, and make sure who is at the other end. Raises: NotAnswered."""
    caller = originals.Socket(socket.AF_UNIX)
    try:
        caller.connect(str(path))
        if hasattr(socket, "SO_PEERCRED") and places.peer(caller)[:2] != (pid, uid):
            raise NotAnswered(f"somebody else than process {pid} of user {uid} answers at {path}: ask it nothing")
        return caller
    except ConnectionRefusedError:
        caller.close()
        raise NotAnswered(
            f"process {pid} has no inspector, {path} is of an earlier process with that number: {ADVICE}"
        ) from None
    except PermissionError:
        caller.close()
        raise NotAnswered(f"{path} may not be used by user {os.geteuid()}: ask as the user of process {pid}") from None
    except BaseException:
        caller.close()
        raise


# ---- for the commands that ask


def status_of(program: str, work: Callable[[], object]) -> int:
    """Do the work of a command. Returns: an exit status; what is wrong is told in one line."""
    try:
        work()
        sys.stdout.flush()
    except NotAnswered as error:
        print(f"{program}: {printable(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # a pager that was left: at exit nothing is to be written either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def printable(text: str) -> str:
    """Return a line with nothing in it that a terminal would obey, or could not show."""
    return "".join(each if each.isprintable() else "?" for each in text)


def process(text: str) -> int:
    """Take a PID from a command line."""
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a process")
    return int(text)
