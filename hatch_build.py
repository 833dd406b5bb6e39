"""Compile the accelerator while a wheel is built or the checkout is installed; without it, Dhaga is pure Python.

Each ``dhaga/**/_*.c`` is one extension module, compiled by the C compiler that this Python was built with, or ``CC``.
Where that does not work (no compiler, no Python.h), one line of warning says why, and the wheel is the pure one, for
every platform: a failure here must never keep ``pip install`` from working. ``DHAGA_PURE=1`` leaves the attempt out.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SECONDS = 120
"""After which a compiler counts as hung; it takes one."""


class NotCompiled(Exception):
    """Why there will be no compiled module; one line."""


class AcceleratorHook(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel; of an editable install, to the checkout."""

    folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and let the wheel be of this platform. Called before hatchling collects the files."""
        root = Path(self.root)
        sources = sorted(root.glob("dhaga/**/_*.c"))
        built = self.compile(sources)
        if version == "editable":
            put_in_place(sources, built)
        else:
            names = {str(built[each]): each.with_name(file_name(each)).relative_to(root).as_posix() for each in built}
            build_data["force_include"].update(names)
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def compile(self, sources: list[Path]) -> dict[Path, Path]:
        """Return the compiled module of each source; of none if one fails, or where pure Python is asked for."""
        if os.environ.get("DHAGA_PURE", "0") not in ("", "0"):
            return {}
        self.folder = tempfile.mkdtemp(prefix="dhaga-build-")
        try:
            return {source: compiled(source, Path(self.folder)) for source in sources}
        except NotCompiled as reason:
            self.app.display_warning(f"dhaga is installed as pure Python, without its accelerator: {reason}")
            return {}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled: it is in the wheel."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def file_name(source: Path) -> str:
    """Return what this Python calls the module of a source: ``_frame_chunks.cpython-313-x86_64-linux-gnu.so``."""
    return source.stem + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")


def put_in_place(sources: list[Path], built: dict[Path, Path]) -> None:
    """Replace the compiled modules of a checkout, each at once: its other environments may be importing them.

    What an earlier install has left is removed if it was not compiled again, as it would be out of date.
    """
    for source in sources:
        target = source.with_name(file_name(source))
        if source not in built:
            target.unlink(missing_ok=True)
            continue
        aside = target.with_name(f".{os.getpid()}-{target.name}")  # beside it, as a rename stays on one file system
        try:
            shutil.copy2(built[source], aside)
            os.replace(aside, target)
        finally:
            aside.unlink(missing_ok=True)


def compiled(source: Path, folder: Path) -> Path:
    """Compile one extension module into a folder. Raises: NotCompiled."""
    config = {name: sysconfig.get_config_var(name) or "" for name in ("CC", "CFLAGS", "CCSHARED", "LDSHARED")}
    if sys.implementation.name != "cpython" or os.name != "posix":
        raise NotCompiled(f"it is not for {sys.implementation.name} on {sys.platform}")
    if sysconfig.get_config_var("Py_GIL_DISABLED") and sys.version_info < (3, 15):
        raise NotCompiled("it is not for free-threaded builds before 3.15")
    named, link = shlex.split(config["CC"]), shlex.split(config["LDSHARED"])
    if not named or not link:
        raise NotCompiled("this Python does not say how it was compiled")
    compiler = shlex.split(os.environ.get("CC", "")) or named
    # "gcc -pthread -shared …": where the program is another one, its part is replaced.
    link[: len(named) if link[: len(named)] == named else 1] = compiler
    includes = {sysconfig.get_path("include"), sysconfig.get_path("platinclude"), greenlet_header()}
    flags = shlex.split(" ".join([config["CFLAGS"], config["CCSHARED"], "-g0", os.environ.get("CFLAGS", "")]))
    if sys.platform == "darwin":
        archflags = shlex.split(os.environ.get("ARCHFLAGS", ""))
        flags, link = for_architectures(flags, archflags), for_architectures(link, archflags)
    made = folder / f"{source.stem}.o"
    module = folder / file_name(source)
    run([*compiler, *flags, *(f"-I{path}" for path in sorted(includes)), "-c", str(source), "-o", str(made)])
    run([*link, str(made), *shlex.split(os.environ.get("LDFLAGS", "")), "-o", str(module)])
    return module


def for_architectures(command: list[str], archflags: list[str]) -> list[str]:
    """Return a command of Python's own for the processors of ``ARCHFLAGS``, which the wheel's tag names; on macOS."""
    if not archflags:
        return command
    named = [i for i, word in enumerate(command) if word == "-arch"]
    return [word for i, word in enumerate(command) if i not in named and i - 1 not in named] + archflags


def greenlet_header() -> str:
    """Return the folder of greenlet.h, which comes with the package. Raises: NotCompiled."""
    found = find_spec("greenlet")
    folder = Path(found.origin).parent if found is not None and found.origin else None
    if folder is None or not (folder / "greenlet.h").exists():
        raise NotCompiled("greenlet.h is not there: it comes with the package greenlet")
    return str(folder)


def compiler_environment() -> dict[str, str]:
    """Return the environment of a compiler: for the version of macOS that this Python is built for."""
    target = sysconfig.get_config_var("MACOSX_DEPLOYMENT_TARGET")
    return {**({"MACOSX_DEPLOYMENT_TARGET": str(target)} if target else {}), **os.environ}


def run(command: list[str]) -> None:
    """Run a compiler. Raises: NotCompiled with the line that tells most, if it fails or is not there."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, env=compiler_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiled(f"{command[0]}: {error}") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        told = next(
            (line for line in lines if "error" in line), lines[0] if lines else f"exit status {done.returncode}"
        )
        raise NotCompiled(f"{command[0]}: {told}")
