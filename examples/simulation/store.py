"""One replica: values with versions, in a log on its disk, served to any number of clients. Plain threads and sockets.

A request is a line of JSON, and so is its reply. The log has a line for each write, with its checksum.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import zlib
from pathlib import Path
from typing import Any, Final

PORT: Final = 7000

Version = tuple[int, str]
"""Number of the write, and who made it: of two with one number the greater name wins."""

NEVER: Final[Version] = (0, "")


class Replica:
    """The values of one replica. ``early``: the bug: a write is acknowledged before it is on the disk."""

    def __init__(self, directory: Path, early: bool = False) -> None:
        self.early = early
        self.lock = threading.Lock()
        self.values: dict[str, tuple[Version, str]] = {}
        self.log = os.open(directory / "log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.recover()
        sync_directory(directory)

    def recover(self) -> None:
        """Read the log, and cut off a line that a crash has torn. All that is kept is on the disk then."""
        good = 0
        for line in os.pread(self.log, os.fstat(self.log).st_size, 0).splitlines(keepends=True):
            written = unpacked(line)
            if written is None:
                break
            self.keep(*written)
            good += len(line)
        os.ftruncate(self.log, good)
        os.fsync(self.log)

    def keep(self, key: str, version: Version, value: str) -> None:
        """Keep a value, unless there is a later one."""
        if version > self.read(key)[0]:
            self.values[key] = version, value

    def read(self, key: str) -> tuple[Version, str]:
        """Return the version and the value of a key."""
        return self.values.get(key, (NEVER, ""))

    def write(self, key: str, version: Version, value: str) -> None:
        """Write a value; it is on the disk when this returns."""
        with self.lock:
            if version > self.read(key)[0]:
                os.write(self.log, packed(key, version, value))
                if not self.early:
                    os.fsync(self.log)
                self.keep(key, version, value)

    def serve(self) -> None:
        """Serve clients, for ever."""
        with socket.create_server(("", PORT)) as listener:
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=self.talk, args=(sock,), daemon=True).start()

    def talk(self, sock: socket.socket) -> None:
        """Answer the requests of one client."""
        try:
            with sock, sock.makefile("rwb") as file:
                for line in file:
                    file.write(json.dumps(self.answer(json.loads(line))).encode() + b"\n")
                    file.flush()
                    if self.early:
                        os.fsync(self.log)
        except OSError:
            pass  # the client is gone

    def answer(self, request: dict[str, Any]) -> Any:
        """Return the reply to a request."""
        if "value" in request:
            number, name = request["version"]
            self.write(request["key"], (number, name), request["value"])
            return True
        return self.read(request["key"])


def packed(key: str, version: Version, value: str) -> bytes:
    """Return a line of the log."""
    body = json.dumps([key, version, value]).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def unpacked(line: bytes) -> tuple[str, Version, str] | None:
    """Return what a line of the log says; None if it is torn."""
    checksum, _, body = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body):
        return None
    key, (number, name), value = json.loads(body)
    return key, (number, name), value


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
