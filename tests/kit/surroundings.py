"""Makes a run of the tests independent of the shell, script, cron job or service that started it.

``tests/conftest.py`` calls ``make_ordinary`` before any test is imported. From then on, the children of a test inherit
ordinary settings, so that no test must set them. ``make test-anywhere`` tests this (``tests/anywhere.py``).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from dhaga._kernel.platform.system import system

try:
    import resource
except ImportError:  # Windows
    resource: Any = None  # type: ignore[no-redef]

LEFT_IGNORED = {getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name)}
"""Signals that Python itself ignores."""

UMASK = 0o022
FILES = 20_000
"""Soft limit of open files for crowds of connections, as far as the hard limit allows it."""

VARIABLES = (
    "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "LINES",
    *(f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")),
    *(f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL", "NO")),
)  # fmt: skip
"""Variables that change what programs print, or where clients connect to."""


undone: list[str] = []
"""The conditions that ``make_ordinary`` has undone, each in a few words."""


def make_ordinary() -> None:
    """Undo all conditions that differ from a run in a terminal."""
    undone.extend([*reset_signals(), *_open_standard_files(), *_raise_limits(), *_settle_environment()])


def ignored_signals() -> list[signal.Signals]:
    """Return the signals that this process ignores because of its starter: nohup, a script's ``&``, cron."""
    known = (number for number in signal.valid_signals() - LEFT_IGNORED if isinstance(number, signal.Signals))
    return sorted(number for number in known if signal.getsignal(number) is signal.SIG_IGN)


def reset_signals() -> list[str]:
    """Reset ignored and blocked signals. Otherwise Python and its children ignore a Ctrl-C, for example."""
    ignored, blocked = ignored_signals(), system.signal_mask()
    system.set_signal_mask([])
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    return [
        *(f"{number.name} ignored" for number in ignored),
        *(f"signal {int(number)} blocked" for number in sorted(blocked)),
    ]


def _open_standard_files() -> Iterator[str]:
    """Open closed standard files. Otherwise a test's pipe or socket gets fd 0, and is a child's standard input."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            assert os.open(os.devnull, os.O_RDWR) == number  # the lowest free fd
            os.set_inheritable(number, True)
            yield f"{('stdin', 'stdout', 'stderr')[number]} closed"


def _raise_limits() -> Iterator[str]:
    if (mask := os.umask(UMASK)) != UMASK:
        yield f"umask {mask:03o}"
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        yield f"{soft} open files"


def _settle_environment() -> Iterator[str]:
    # Containers often set this: each run then rewrites the assertions of all tests, and each program compiles Dhaga.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in VARIABLES:
        if os.environ.pop(name, None) is not None:
            yield f"{name} set"
    if os.environ.get("TERM", "dumb") == "dumb":
        yield f"TERM {os.environ.get('TERM', 'unset')}"
        os.environ["TERM"] = "xterm-256color"
    home = os.environ.get("HOME")
    if home is not None and not _is_writable(home):  # caches of matplotlib, IPython, Chromium
        yield "HOME read-only"
        os.environ["HOME"] = _new_home()


def _is_writable(folder: str) -> bool:
    """Return whether a file can be created in a folder. For root, ``os.access`` is true for any folder."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _new_home() -> str:
    """Return the test home of this user. All runs share it, because its caches are worth keeping."""
    folder = os.path.join(tempfile.gettempdir(), f"dhaga-tests-home-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid != os.getuid():
        sys.exit(f"{folder} belongs to another user; HOME must be a folder that can be written to")
    return folder
