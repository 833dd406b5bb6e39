"""What is expected of each suite, in a TOML file of its name, and where the suites are put.

The peers' own suites (gevent's, eventlet's) measure ``dhaga.compat``. Those of programs on them (zerorpc, swift, oslo)
show that it suffices: they import ``imports``, the real one or ours. One that runs on threads imports neither: its
bridge patches the standard library.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.stdlib.run import Limits

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NAMES = (
    *("gevent", "eventlet", "zerorpc", "swift"),
    *("oslo.service", "oslo.service.threading", "oslo.log", "oslo.concurrency", "oslo.messaging"),
)


class Unavailable(Exception):
    """What a suite needs cannot be installed here, as when offline."""


@dataclass(frozen=True)
class Loss:
    """Why a test does not pass that passes with the peer."""

    reason: str
    flaky: bool = False
    """It passes at times."""
    hangs: bool = False
    """It is not even tried."""


@dataclass(frozen=True)
class Peer:
    """A suite of tests that runs with the real peer and on Dhaga."""

    name: str
    requirement: str
    """The release, as pip takes it."""
    tests: str
    """The package of the tests."""
    source: str
    """Where they are: in the ``wheel``, in the ``sdist``, or in a repository of git, URL@commit."""
    modules: tuple[str, ...]
    target: float
    """The share that is to pass."""
    environ: dict[str, str]
    limits: Limits
    known: dict[str, Loss]
    bridge: Path
    """The file of ours that is run first on Dhaga, so that the tests find Dhaga under the peer's name."""
    imports: str = ""
    """The suite of the peer that this one's program imports; "" for a peer's own."""
    needs: tuple[str, ...] = ()
    """What the tests import besides, as pip takes it."""
    left_out: dict[str, Loss] = field(default_factory=dict)
    """Tests that are asked neither of the peer nor of Dhaga."""

    @classmethod
    def named(cls, name: str) -> Peer:
        data = tomllib.loads((HERE / f"{name}.toml").read_text())
        imports = data.get("imports", "")
        return cls(
            name,
            data["requirement"],
            data["tests"],
            data["source"],
            tuple(data["modules"]),
            data["target"],
            data.get("environ", {}),
            Limits(data["test_seconds"], resources=()),
            losses(data.get("loss", [])),
            HERE / data.get("bridge", f"{name}_bridge.py"),
            imports,
            tuple(data.get("needs", [])),
            losses(data.get("left_out", [])),
        )


def losses(entries: list[dict[str, Any]]) -> dict[str, Loss]:
    """Return the tests of some tables, with the reason of each."""
    return {
        test: Loss(entry["reason"], entry.get("flaky", False), entry.get("hangs", False))
        for entry in entries
        for test in entry["tests"]
    }


class Environment:
    """A scratch environment with Dhaga, the peers and what their tests need; nothing of it is committed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / "bin/python"

    def make(self, peer: Peer) -> None:
        """Install what is not there yet. Raises: Unavailable."""
        if peer.imports:
            self.make(Peer.named(peer.imports))
        try:
            self.once("dhaga", "dhaga and the group peers", self.make_environment)
            self.once(f"{peer.name} {peer.requirement}", peer.requirement, lambda: self.install(peer))
        except (subprocess.CalledProcessError, OSError) as error:
            raise Unavailable(f"{peer.requirement} cannot be installed: {error}") from error

    def once(self, key: str, what: str, install: Callable[[], None]) -> None:
        mark = self.place / f".{key}"
        if not mark.exists():
            print(f"== {self.place.name}: install {what}", flush=True)
            install()
            mark.touch()

    def make_environment(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.place)], check=True)
        subprocess.run([str(ROOT / ".ci/install"), str(self.place), "peers"], cwd=ROOT, check=True)

    def install(self, peer: Peer) -> None:
        """Install a release, what its tests need, and its tests."""
        self.pip("install", peer.requirement, *peer.needs)
        if peer.source == "wheel":
            return
        shutil.rmtree(folder := self.sources(peer), ignore_errors=True)
        if peer.source == "sdist":
            self.unpack(peer)
        else:
            url, _, commit = peer.source.rpartition("@")
            subprocess.run(["git", "clone", "--quiet", "--no-checkout", url, str(folder)], check=True)
            subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", "--detach", commit], check=True)

    def unpack(self, peer: Peer) -> None:
        """Fetch the sdist and unpack it."""
        downloads = self.place / "sdists"
        self.pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(downloads), peer.requirement)
        (archive,) = downloads.glob(f"{peer.requirement.replace('==', '-')}.tar.gz")
        shutil.unpack_archive(archive, self.place / "sources", filter="data")

    def sources(self, peer: Peer) -> Path:
        """Return the folder of the tests that are not in the wheel."""
        return self.place / "sources" / peer.requirement.replace("==", "-")

    def baseline(self, peer: Peer) -> Path:
        """Return the file that says what passes with the real peer here."""
        return self.place / f"baseline-{peer.name}=={peer.requirement.partition('==')[2]}.json"

    def pip(self, *arguments: str) -> None:
        quiet = ["-qq", "--disable-pip-version-check"]
        subprocess.run([str(self.python), "-m", "pip", arguments[0], *quiet, *arguments[1:]], check=True)
