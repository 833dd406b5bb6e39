"""Sources: their names, and a fleet of small ones for the demonstration."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.backup.chunks import digest_of
from examples.backup.wire import BackupError

COMMON_FILES: Final = 16  # of which every source has one: what the server has already is not sent again
SIZES: Final = (200, 8_000)


@dataclass(frozen=True)
class Fleet:
    """The sources of a run, each once; `twice` holds those that were given again."""

    sources: tuple[str, ...]
    twice: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Iterable[str]) -> Fleet:
        """Gather sources; two ways to write one directory are one source.

        Raises: BackupError if there are none.
        """
        sources: dict[str, None] = {}
        twice: list[str] = []
        for text in given:
            path = os.path.realpath(text)
            if path in sources:
                twice.append(text)
            sources[path] = None
        if not sources:
            raise BackupError("there is nothing to back up: name sources, or a file of them by --from")
        return cls(tuple(sources), tuple(twice))

    def digest(self) -> str:
        """Give a text that is the same for the same sources, in whatever order."""
        return digest_of("\0".join(sorted(self.sources)).encode(errors="surrogateescape")).hex()


def listed(path: Path) -> list[str]:
    """Read sources from a file, one a line; empty lines and those that begin with # are passed over.

    Raises: BackupError if it cannot be read.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BackupError(f"cannot read {path}: {error.strerror}") from None
    return [os.fsdecode(line) for line in lines if line.strip() and not line.startswith(b"#")]


def snapshot_name(run: str, source: str) -> str:
    """Name a source's snapshot of a run: the same, whichever worker makes it and however often."""
    return f"{run}-{digest_of(os.fsencode(source)).hex()[:16]}"


def grow(folder: Path, count: int, files: int = 3, seed: int = 1) -> list[str]:
    """Make a fleet of small sources. Returns: their paths."""
    chance = random.Random(seed)
    common = [chance.randbytes(chance.randint(*SIZES)) for _ in range(COMMON_FILES)]
    sources = [folder / f"{number // 1000:03}" / f"source-{number:06}" for number in range(count)]
    for source in sources:
        source.mkdir(parents=True)
        (source / "common").write_bytes(chance.choice(common))
        for number in range(files - 1):
            (source / f"file-{number}").write_bytes(chance.randbytes(chance.randint(*SIZES)))
    return list(map(str, sources))
