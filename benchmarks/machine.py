"""The machine that runs a benchmark: its CPUs, limits and versions, and the CPU time and memory of its processes."""

import os
import platform
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

BUILD = Path(__file__).parent.parent / "build"
"""The folder of programs that are compiled for a benchmark."""


def cpus() -> tuple[int, int] | None:
    """Return the CPU of the measured process and the CPU of the load; None if there are not two CPUs to choose."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def compiler() -> str | None:
    """Return the C compiler if it can build a load here. The loads need epoll, and therefore Linux."""
    return shutil.which(os.environ.get("CC", "cc")) if sys.platform.startswith("linux") else None


def compiled(source: Path) -> Path | None:
    """Return the program of a C file, or None without a compiler. Compile the file if it is newer than the program."""
    program, cc = BUILD / source.stem, compiler()
    if cc is None:
        return None
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(exist_ok=True)
        made = program.with_suffix(f".{os.getpid()}")  # another process may be starting the existing program
        subprocess.run([cc, "-O2", "-Wall", "-o", str(made), str(source)], check=True)
        made.replace(program)
    return program


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit. Children inherit the limit. Returns: the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def stat_of(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name: the first is the state. Raises: OSError."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def cpu_in(stat: list[str]) -> float:
    """Return the CPU seconds used so far, in steps of 10 ms. ``stat``: the fields that ``stat_of`` returns."""
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float | None:
    """Return the CPU time that another process has used so far; None if the system does not report it."""
    try:
        return cpu_in(stat_of(process))
    except OSError:
        return None


def children(process: int) -> list[int]:
    """Return the processes that another process's main thread has started, if the system reports them."""
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return []


def private_memory(process: int) -> int:
    """Return the bytes that another process shares with no other, and would free by ending. Raises: OSError."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "of this checkout" if package == "dhaga" else "not installed"
    return found


def surroundings(*packages: str, **effort: object) -> dict[str, Any]:
    """Return a description of machine, interpreter and packages, and of the extent of the measurement (rounds, …)."""
    # Do not call this in a rival's process: the frame chunks that Dhaga keeps would also speed up gevent's greenlets.
    from dhaga._kernel.fast import accelerator

    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python built with profile": "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""),
        "accelerator": accelerator.describe(),
        "versions": _versions(("dhaga", "gevent", "greenlet", "tornado", "uvloop", *packages)),
        "effort": effort,
    }
