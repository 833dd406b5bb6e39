"""All runs of the experiment: the rivals, the lines, and the number of rounds."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.backup.run import LinkProfile, back_up
from benchmarks.backup.tree import SHAPES, TreeShape, plant
from benchmarks.machine import cpus
from benchmarks.tables.outcome import Tell

RIVALS = {
    "32 threads": "--workers threads --threads 32",
    "128 threads": "--workers threads --threads 128",
    "4 x 32 dhagas": "--workers dhagas --threads 4 --dhagas 32",
    "1 x 128 dhagas": "--workers dhagas --threads 1 --dhagas 128",
    "1 x 1024 dhagas": "--workers dhagas --threads 1 --dhagas 1024",
}

ALONE = {
    "threads": "--workers threads --threads 1",
    "dhagas": "--workers dhagas --threads 1 --dhagas 1",
}
"""One worker over a line without delay: the memory of a run without concurrency."""

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Effort:
    """The size of the experiment: what is backed up, over which lines, and how often."""

    scale: float = 0.1
    tree: str = "files"
    rtt: str = "40ms"
    rates: tuple[str, ...] = ("100mbit", "1gbit")
    rounds: int = 3
    scratch: str = str(SHARED_MEMORY if SHARED_MEMORY.is_dir() else tempfile.gettempdir())

    @property
    def shape(self) -> TreeShape:
        """Return the numbers of files and bytes of the tree."""
        return SHAPES[self.tree].scaled(self.scale)


QUICK = Effort(scale=0.002, rtt="2ms", rates=("100mbit",), rounds=1)


def sampled(effort: Effort, tell: Tell) -> dict[str, Any]:
    """Run all. Returns: `alone`, one run per kind of worker; `lines`, by rate and rival, one run per round.

    Only the runs of the first round have their progress.
    Raises: OSError, RuntimeError.
    """
    lines: dict[str, dict[str, list[Any]]] = {each: {rival: [] for rival in RIVALS} for each in effort.rates}
    with _planted(effort, tell) as tree:

        def run(title: str, workers: str, rtt: str, rate: str) -> dict[str, Any]:
            found = asdict(back_up(tree, effort.shape, workers, LinkProfile(rtt, rate, cpus())))
            tell(f"{title}: {found['seconds']:.1f} s, {found['cpu']:.2f} s of CPU, {found['peak'] / 1e6:.0f} MB")
            return found

        alone = {unit: run(f"one of {unit}", workers, "0", "unlimited") for unit, workers in ALONE.items()}
        for number, rate, rival in product(range(effort.rounds), effort.rates, RIVALS):
            found = run(f"round {number + 1}, {rate}: {rival}", RIVALS[rival], effort.rtt, rate)
            if number:
                del found["progress"]
            lines[rate][rival].append(found)
    return {"lines": lines, "alone": alone}


@contextmanager
def _planted(effort: Effort, tell: Tell) -> Iterator[Path]:
    """Write the tree to a directory that is removed when the block ends."""
    shape = effort.shape
    tell(f"planting {shape.files:,} files of {shape.bytes / 1e6:,.0f} MB in {effort.scratch}")
    with tempfile.TemporaryDirectory(dir=effort.scratch, prefix="backup-") as place:
        tree = Path(place, "tree")
        for _ in plant(tree, shape):
            pass
        yield tree
