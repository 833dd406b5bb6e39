"""The inspector: answers questions from outside of the process, on a private unix socket and OS threads of its own."""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
from pathlib import Path
from typing import Any

from dhaga.kernel import originals

from . import places
from .activities import Activity
from .answers import Answers
from .desks import Desk
from .helpers import resting

logger = logging.getLogger("dhaga")

LONGEST_QUESTION = 65_536
"""Bytes of a line."""


class Inspector(Activity):
    """Answer whoever may ask; from ``inspect()``."""

    def __init__(self) -> None:
        self.start()

    def __repr__(self) -> str:
        return f"<Inspector of process {self.pid} at {self.path}>"

    def start(self) -> None:
        """Listen; again in a forked child, where this is a copy. Raises: OSError."""
        self.pid = os.getpid()
        self.answers = Answers()
        folder = places.own_folder()
        places.sweep(folder)
        self.path: Path = folder / places.name_of(self.pid)
        self.path.unlink(missing_ok=True)  # of one that had this number before
        self.desk = Desk("inspector", listener_at(self.path), self.serve)

    def stop(self) -> None:
        """Answer no more. From: any thread."""
        global inspector
        if inspector is self:
            inspector = None
            self.desk.close()
            self.answers.close()
            self.remove()

    def remove(self) -> None:
        """Remove the socket; in a forked child that has none of its own, leave it."""
        if self.pid == os.getpid():
            self.path.unlink(missing_ok=True)

    def serve(self, guest: socket.socket) -> None:
        """Answer one who asks, line by line, until the end of the connection."""
        if not may_ask(guest):
            say(guest, {"error": f"process {self.pid} answers its own user and root alone"})
            return
        with guest.makefile("rb") as lines:
            while question := next_line(lines):
                say(guest, self.answer(question))

    def answer(self, question: bytes) -> dict[str, Any]:
        try:
            return self.answers.to(json.loads(question))
        except ValueError as error:
            return {"error": f"a question is one line of JSON: {error}"}


def next_line(lines: Any) -> bytes:
    with resting():
        return lines.readline(LONGEST_QUESTION)  # type: ignore[no-any-return]


def say(guest: socket.socket, answer: dict[str, Any]) -> None:
    line = json.dumps(answer).encode() + b"\n"
    with resting():
        guest.sendall(line)


def listener_at(path: Path) -> socket.socket:
    """Return a listening socket that this user alone can connect to. Raises: OSError."""
    listener = originals.Socket(socket.AF_UNIX)
    try:
        try:
            listener.bind(str(path))
        except OSError as error:
            raise OSError(
                f"no socket can be made at {path} ({error}): XDG_RUNTIME_DIR may name another directory"
            ) from error
        path.chmod(0o600)  # before anybody can connect
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def may_ask(guest: socket.socket) -> bool:
    """Tell whether somebody is of our user, or root; where the platform does not say, the directory's mode decides."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    return places.peer(guest)[1] in (os.geteuid(), 0)


inspector: Inspector | None = None
"""The one of this process."""


def inspect() -> Inspector:
    """Let ``python -m dhaga dump PID`` and ``top PID`` look into this process, as the same user or root.

    Parks: never. From: any thread. Ends by ``stop()``, or with the process; a forked child makes its own. Returns: the
    one of this process. Raises: OSError if no private socket can be made.
    """
    global inspector
    if inspector is None:
        inspector = Inspector()
    return inspector


def at_exit() -> None:
    if inspector is not None:
        inspector.remove()


def after_fork_in_child() -> None:
    """Have the child answer for itself."""
    global inspector
    if inspector is None:
        return
    inspector.desk.abandon()
    for guest in inspector.desk.guests:
        guest.close()
    try:
        inspector.start()
    except OSError as error:
        inspector = None
        logger.warning("the forked process %d cannot be inspected: %s", os.getpid(), error)


atexit.register(at_exit)
os.register_at_fork(after_in_child=after_fork_in_child)
