"""An environment for each release: its packages, and Dhaga from this checkout."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLDER = ROOT / ".venv-published"


class NoEnvironment(RuntimeError):
    """Raised if an environment could not be made; the text says why."""


def tested_environment(version: str) -> Path:
    """Return the environment in which this checkout is tested on a Python. Raises: NoEnvironment."""
    found = ROOT / f".venv-{version}"
    if not (found / "bin/python").exists():
        raise NoEnvironment(f"Python {version} has no environment here: make .venv-{version}/.test")
    return found


def environment_of(requires: Sequence[str], version: str) -> Path:
    """Return the Python of an environment with these packages, made on first use. Raises: NoEnvironment."""
    base = tested_environment(version)
    if not requires:
        return base / "bin/python"
    name = hashlib.blake2b(repr(sorted(requires)).encode(), digest_size=5).hexdigest()
    folder = FOLDER / f"{version}-{name}"
    done = folder / ".installed"
    if not done.exists():
        make(folder, base, requires)
        done.write_text("\n".join(requires))
    return folder / "bin/python"


def make(folder: Path, base: Path, requires: Sequence[str]) -> None:
    run(base / "bin/python", "-m", "venv", "--clear", "--without-pip", folder)
    run(base / "bin/python", "-m", "pip", "--python", folder, "install", "-q", *requires)
    # After its own packages, add the packages of the tested environment, which has greenlet and Tornado.
    packages = next(folder.glob("lib/python*/site-packages"))
    behind = next(base.glob("lib/python*/site-packages"))
    (packages / "tested.pth").write_text(f"{ROOT}\n{ROOT / 'dhaga/_pytest_entry'}\n{behind}\n")


def run(*command: object) -> None:
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([*map(str, command)], env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEnvironment(f"{' '.join(map(str, command))}:\n{done.stderr.strip()}")


def version_here() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
