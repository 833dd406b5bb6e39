"""The Python files of a source tree and their texts. Each text keeps its encoding and its line ends."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUFFIXES = (".py", ".pyw")
LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}
"""Folders that contain no sources of a project. Hidden folders and virtual environments are also skipped."""

SHEBANG = re.compile(rb"#!.*\bpython")


class Unread(NamedTuple):
    """A file or folder that could not be read, and the reason."""

    file: str
    why: str


class Source(NamedTuple):
    """A file's content. ``text`` has the file's line ends, but no byte order mark."""

    file: str
    text: str
    encoding: str
    mark: bytes = b""

    def encoded(self, text: str) -> bytes:
        """Encode a text with the encoding and the byte order mark of this file. Raises: UnicodeEncodeError."""
        return self.mark + text.encode(self.encoding)


def python_files(path: str, unread: list[Unread]) -> Iterator[str]:
    """Yield the file ``path``, or the sorted Python files below the folder ``path``. Each real file is yielded once.

    Links to folders are not followed, because links can form loops. Pipes and devices are not opened. Folders and
    ``.py`` files that cannot be examined are added to ``unread``.
    """
    if not os.path.isdir(path):
        yield path
        return
    seen: set[tuple[int, int]] = set()

    def note(error: OSError) -> None:
        unread.append(Unread(error.filename or path, error.strerror or str(error)))

    for folder, folders, names in os.walk(path, onerror=note):
        folders[:] = sorted(name for name in folders if is_of_the_project(folder, name))
        for name in sorted(names):
            full = os.path.join(folder, name)
            if name.endswith(SUFFIXES) or "." not in name:
                try:
                    status = os.stat(full)
                    if (
                        stat.S_ISREG(status.st_mode)
                        and (status.st_dev, status.st_ino) not in seen
                        and (name.endswith(SUFFIXES) or is_script(full))
                    ):
                        seen.add((status.st_dev, status.st_ino))
                        yield full
                except OSError as error:
                    if name.endswith(SUFFIXES) and not os.path.islink(full):
                        unread.append(Unread(full, error.strerror or str(error)))


def is_of_the_project(folder: str, name: str) -> bool:
    return not (name.startswith(".") or name in LEFT_OUT or os.path.exists(os.path.join(folder, name, "pyvenv.cfg")))


def is_script(path: str) -> bool:
    """Return whether a file without a suffix names Python as its interpreter. Raises: OSError."""
    with open(path, "rb") as file:
        return SHEBANG.match(file.readline(200)) is not None


def read(path: str, unread: list[Unread]) -> bytes | None:
    """Return a file's bytes. For an unreadable file, add an entry to ``unread`` and return None."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(0, "not a regular file", path)
        return Path(path).read_bytes()
    except OSError as error:
        unread.append(Unread(path, error.strerror or str(error)))
        return None


def decode(path: str, data: bytes) -> Source:
    """Decode a file by its byte order mark or coding line. Raises: SyntaxError, also if the encoding is wrong."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    try:
        return Source(path, data[len(mark) :].decode(encoding), encoding, mark)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"not {encoding}: {error.reason} at byte {error.start}") from None


def write(source: Source, text: str) -> None:
    """Replace a file's text atomically and keep the file's mode. A link remains a link. Raises: OSError."""
    path = os.path.realpath(source.file)
    data = source.encoded(text)
    handle, new = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".dhaga-migrate-")
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.chmod(new, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
