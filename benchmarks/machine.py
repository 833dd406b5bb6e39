"""The machine that is measured on: its CPUs, its limits, its versions, and what a process on it has used."""

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
"""Where what is compiled for a benchmark goes."""


def cpus() -> tuple[int, int] | None:
    """Return the CPU of what is measured and that of the load, or None if they cannot be apart."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def compiler() -> str | None:
    """Return the C compiler that can build a load here; it needs epoll, hence Linux."""
    return shutil.which(os.environ.get("CC", "cc")) if sys.platform.startswith("linux") else None


def compiled(source: Path) -> Path | None:
    """Return the program of a C file; compiles it if it is newer than what was built. None: there is no compiler."""
    program, cc = BUILD / source.stem, compiler()
    if cc is None:
        return None
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(exist_ok=True)
        made = program.with_suffix(f".{os.getpid()}")  # another process may be about to start the former
        subprocess.run([cc, "-O2", "-Wall", "-o", str(made), str(source)], check=True)
        made.replace(program)
    return program


def raise_file_limit() -> int:
    """Allow as many open files as the hard limit does; children inherit it. Returns: the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def stat_of(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name: the first is the state. Raises: OSError."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def cpu_in(stat: list[str]) -> float:
    """Return the CPU seconds used so far, in steps of 10 ms, out of such fields."""
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(process: int) -> float | None:
    """Return the CPU time that another process has used so far, where the system tells."""
    try:
        return cpu_in(stat_of(process))
    except OSError:
        return None


def children(process: int) -> list[int]:
    """Return the processes that another one's main thread has started, where the system tells."""
    try:
        return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    except OSError:
        return []


def private_memory(process: int) -> int:
    """Return the bytes that another process shares with none: what would be free without it. Raises: OSError."""
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
    """Describe machine, interpreter and packages, and what effort was made (rounds, seconds, …)."""
    # Not by a rival's process: Dhaga's kept frame chunks would serve gevent's greenlets as well.
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
