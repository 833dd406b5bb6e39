"""The early patch: restart a process, so that the patch precedes even what runs before a program's first line.

Agents such as ``opentelemetry-instrument`` put a ``sitecustomize`` on PYTHONPATH, which imports packages and starts
threads before any command line is read. ``python -m dhaga``, gunicorn and Celery's worker find in that case that a
patch comes too late. They then replace their process by the same command (``exec``: the same pid, arguments and files)
with our ``sitecustomize`` in front. It patches, and runs the next one: the agent's threads are dhagas. No process
restarts twice. Lines of .pth files, which precede every ``sitecustomize``, still precede the patch.

A master that forks its workers before they patch (``serve``) puts the next ``sitecustomize`` off: each worker runs it.
"""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .._kernel import originals
from .._kernel.errors import PatchError
from ._other_hubs import refuse_other_patches
from ._patcher import patch

__all__ = ["MARK", "begin", "can_restart", "is_own_command", "restart", "run_next"]

MARK = "DHAGA_EARLY"
"""The environment variable that brings the options of a restart, with the pid that they are for."""

PACKAGE = __name__.partition(".")[0]
NAME = "sitecustomize"
FOLDER = str(Path(__file__).with_name("_sitecustomize"))

restarted_as = 0
"""The pid of the process that has restarted, once our ``sitecustomize`` runs."""

is_put_off = False
"""Whether the next ``sitecustomize`` has yet to run."""


def can_restart() -> bool:
    """Return whether a restart is possible, and may bring a patch that would come too late now."""
    try:
        refuse_other_patches()
    except PatchError:
        return False
    reads_path = not (sys.flags.ignore_environment or sys.flags.no_site)
    in_main_thread = originals.get_ident() == originals.main_thread().ident
    return reads_path and in_main_thread and bool(sys.executable) and not is_restarted()


def is_own_command() -> bool:
    """Return whether this process is ``python -m dhaga …``, in which only ``site`` has run other code so far."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) == f"{PACKAGE}.__main__"


def is_restarted() -> bool:
    """Return whether this process has restarted; a child has not, even if it inherits the variable."""
    return os.getpid() in (restarted_as, options_of(os.environ).get("pid"))


def options_of(environment: Any) -> dict[str, Any]:
    """Return the options of a restart in an environment; empty if there was none."""
    options: dict[str, Any] = json.loads(environment.get(MARK, "{}"))
    return options


def restart(
    *,
    cooperative: bool = False,
    real_threads: Iterable[str] = (),
    puts_off: bool = False,
    folder: str | None = None,
) -> None:
    """Replace the process by the same command, patched before any other code. Returns: never.

    ``puts_off``: leave the patch and the next ``sitecustomize`` to ``run_next``.
    ``folder``: the working directory of the start, if the program may have left it.
    """
    patching = {"cooperative": cooperative, "real_threads": list(real_threads)}
    options = {"pid": os.getpid(), "puts_off": puts_off, "patch": patching}
    path = path_of_restart(os.environ.get("PYTHONPATH", ""))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: the descriptor was closed at the start
            stream.flush()
    if folder is not None:
        os.chdir(folder)
    environment = {**os.environ, "PYTHONPATH": path, MARK: json.dumps(options)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def path_of_restart(path: str) -> str:
    """Return PYTHONPATH with our folder first, and with the agent's, which it may have removed for its children."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    file = getattr(sys.modules.get(NAME), "__file__", None)
    agent = [os.path.dirname(os.path.abspath(file))] if file else []
    return os.pathsep.join([FOLDER, *(each for each in agent if each not in folders), *folders])


# ---- after the restart, in our sitecustomize


def begin() -> None:
    """Patch, unless it is put off, and run the next ``sitecustomize``; leave no trace in paths and environment."""
    global restarted_as, is_put_off
    ours = sys.modules.get(NAME)
    sys.path[:] = [folder for folder in sys.path if folder != FOLDER]
    remove_from_environment()
    options = options_of(os.environ)
    os.environ.pop(MARK, None)
    if options.get("pid") == os.getpid():
        restarted_as = os.getpid()
        is_put_off = options["puts_off"]
        if not is_put_off:
            patch_if_in_time(options["patch"])
    if not is_put_off:
        find_next(ours)


def patch_if_in_time(options: dict[str, Any]) -> None:
    """Patch, unless a .pth file has come first. In that case the command tries again, and reports the error."""
    try:
        patch(**options)
    except PatchError:
        return


def remove_from_environment() -> None:
    folders: Sequence[str] = [
        folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder and folder != FOLDER
    ]
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    else:
        os.environ.pop("PYTHONPATH", None)


def run_next() -> None:
    """Run the ``sitecustomize`` that was put off, if one was. From: a worker that is patched, before the app."""
    global is_put_off
    if is_put_off:
        is_put_off = False
        find_next(sys.modules.get(NAME))


def find_next(ours: ModuleType | None) -> None:
    """Import the next ``sitecustomize``, as ``site`` does: it prints an error in it."""
    sys.modules.pop(NAME, None)
    site.execsitecustomize()
    if ours is not None:  # the import of ours, which is under way, wants a module of this name
        sys.modules.setdefault(NAME, ours)
