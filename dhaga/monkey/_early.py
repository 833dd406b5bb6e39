"""Restarts a process with an early patch, which precedes even the code that runs before a program's first line.

Agents such as ``opentelemetry-instrument`` put a module ``sitecustomize`` on PYTHONPATH. Their ``sitecustomize``
imports packages and starts threads before any command line is read. A patch by ``python -m dhaga``, gunicorn or
Celery's worker is then too late. In that case the command executes itself again, with Dhaga's ``sitecustomize`` first
on PYTHONPATH. The call of ``exec`` keeps the pid, arguments and files. Dhaga's module patches, and then runs the
agent's ``sitecustomize``. The threads that the agent starts are then dhagas. No process restarts twice. Lines of .pth
files run before any ``sitecustomize``, and therefore before the patch.

The master of ``serve`` forks its workers before they patch, and does not run the agent's ``sitecustomize``. Each worker
patches, and then runs the agent's module.
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
from .._kernel.faces.environment import RESTARTED
from ._other_hubs import refuse_other_patches
from ._patcher import patch

__all__ = ["MARK", "begin", "can_restart", "is_own_command", "restart", "run_next"]

MARK = RESTARTED
"""The environment variable that contains the options of a restart, and the pid of the restarted process."""

PACKAGE = __name__.partition(".")[0]
NAME = "sitecustomize"
FOLDER = str(Path(__file__).with_name("_sitecustomize"))

restarted_as = 0
"""The pid of the process that has restarted, set by Dhaga's ``sitecustomize``; 0 if there was no restart."""

is_put_off = False
"""Whether ``run_next`` must still run the next ``sitecustomize``."""


def can_restart() -> bool:
    """Return whether the process can restart, so that an early patch is possible."""
    try:
        refuse_other_patches()
    except PatchError:
        return False
    reads_path = not (sys.flags.ignore_environment or sys.flags.no_site)
    in_main_thread = originals.get_ident() == originals.main_thread().ident
    return reads_path and in_main_thread and bool(sys.executable) and not is_restarted()


def is_own_command() -> bool:
    """Return whether this process is ``python -m dhaga …``. Before that command, only ``site`` has run other code."""
    return getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", None) == f"{PACKAGE}.__main__"


def is_restarted() -> bool:
    """Return whether this process has restarted. False in a child process, even if it inherits ``MARK``."""
    return os.getpid() in (restarted_as, options_of(os.environ).get("pid"))


def options_of(environment: Any) -> dict[str, Any]:
    """Return the options of a restart from an environment, or an empty dict if there was no restart."""
    options: dict[str, Any] = json.loads(environment.get(MARK, "{}"))
    return options


def restart(
    *,
    cooperative: bool = False,
    real_threads: Iterable[str] = (),
    puts_off: bool = False,
    folder: str | None = None,
) -> None:
    """Execute the command of this process again, with a patch before any other code. Returns: never.

    ``puts_off``: whether the patch and the next ``sitecustomize`` are left to the command's workers (``run_next``).
    ``folder``: the program's initial working directory, if the program may have changed it.
    """
    patching = {"cooperative": cooperative, "real_threads": list(real_threads)}
    options = {"pid": os.getpid(), "puts_off": puts_off, "patch": patching}
    path = path_of_restart(os.environ.get("PYTHONPATH", ""))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None if the stream was closed at the start
            stream.flush()
    if folder is not None:
        os.chdir(folder)
    environment = {**os.environ, "PYTHONPATH": path, MARK: json.dumps(options)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def path_of_restart(path: str) -> str:
    """Return PYTHONPATH with ``FOLDER`` first. Add the agent's folder if the agent has removed it from PYTHONPATH."""
    folders = [folder for folder in path.split(os.pathsep) if folder]
    file = getattr(sys.modules.get(NAME), "__file__", None)
    agent = [os.path.dirname(os.path.abspath(file))] if file else []
    return os.pathsep.join([FOLDER, *(each for each in agent if each not in folders), *folders])


# ---- after the restart, in Dhaga's sitecustomize


def begin() -> None:
    """Remove ``FOLDER`` and ``MARK``. Then patch the restarted process, and run the next ``sitecustomize``.

    If the patch and the ``sitecustomize`` are put off, a worker patches later, and then calls ``run_next``.
    """
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
    """Patch, unless code of a .pth file precedes the patch. In that case the command reports the error later."""
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
    """Run the next ``sitecustomize`` if it was put off. From: a worker, after its patch and before the app."""
    global is_put_off
    if is_put_off:
        is_put_off = False
        find_next(sys.modules.get(NAME))


def find_next(ours: ModuleType | None) -> None:
    """Import the next ``sitecustomize`` as ``site`` does: an error of the import is printed and not raised."""
    sys.modules.pop(NAME, None)
    site.execsitecustomize()
    if ours is not None:  # the unfinished import of Dhaga's sitecustomize needs a module of this name
        sys.modules.setdefault(NAME, ours)
