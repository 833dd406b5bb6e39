"""What is expected of gevent's and eventlet's own tests, each in a TOML file of its name; and where they are put."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.stdlib.run import Limits

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
NAMES = ("gevent", "eventlet")


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
    """A library whose tests are the yardstick of ``dhaga.compat``."""

    name: str
    requirement: str
    """The release, as pip takes it."""
    tests: str
    """The package of its tests."""
    sdist: bool
    """Whether they are in the sdist only."""
    modules: tuple[str, ...]
    target: float
    """The share that is to pass."""
    environ: dict[str, str]
    limits: Limits
    known: dict[str, Loss]

    @classmethod
    def named(cls, name: str) -> Peer:
        data = tomllib.loads((HERE / f"{name}.toml").read_text())
        return cls(
            name,
            data["requirement"],
            data["tests"],
            data["sdist"],
            tuple(data["modules"]),
            data["target"],
            data.get("environ", {}),
            Limits(data["test_seconds"], resources=()),
            {
                test: Loss(entry["reason"], entry.get("flaky", False), entry.get("hangs", False))
                for entry in data.get("loss", [])
                for test in entry["tests"]
            },
        )

    @property
    def bridge(self) -> Path:
        """The file of ours that is run first on Dhaga, so that the tests find Dhaga under the peer's name."""
        return HERE / f"{self.name}_bridge.py"


class Environment:
    """A scratch environment with Dhaga, the peers and what their tests need; nothing of it is committed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / "bin/python"

    def make(self, peer: Peer) -> None:
        """Install what is not there yet."""
        mark = self.place / ".dhaga"
        if not mark.exists():
            print(f"== {self.place.name}: install dhaga and the group peers", flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.place)], check=True)
            subprocess.run([str(ROOT / ".ci/install"), str(self.place), "peers"], cwd=ROOT, check=True)
            mark.touch()
        mark = self.place / f".{peer.requirement}"
        if not mark.exists():
            print(f"== {self.place.name}: install {peer.requirement}", flush=True)
            self.pip("install", peer.requirement)
            if peer.sdist:
                self.unpack(peer)
            mark.touch()

    def unpack(self, peer: Peer) -> None:
        """Fetch the sdist and unpack it."""
        shutil.rmtree(self.sources(peer), ignore_errors=True)
        downloads = self.place / "sdists"
        self.pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(downloads), peer.requirement)
        (archive,) = downloads.glob(f"{peer.requirement.replace('==', '-')}.tar.gz")
        shutil.unpack_archive(archive, self.place / "sources", filter="data")

    def sources(self, peer: Peer) -> Path:
        """Return the folder of the unpacked sdist."""
        return self.place / "sources" / peer.requirement.replace("==", "-")

    def baseline(self, peer: Peer) -> Path:
        """Return the file that says what passes with the real peer here."""
        return self.place / f"baseline-{peer.requirement}.json"

    def pip(self, *arguments: str) -> None:
        quiet = ["-qq", "--disable-pip-version-check"]
        subprocess.run([str(self.python), "-m", "pip", arguments[0], *quiet, *arguments[1:]], check=True)
