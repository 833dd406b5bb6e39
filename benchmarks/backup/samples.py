"""All runs of the experiment: who, over which lines, how often."""

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
"""One worker, over a line that takes no time: what a run holds before concurrency adds to it."""

SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Effort:
    """What is backed up, over which lines, how often."""

    scale: float = 0.1
    tree: str = "files"
    rtt: str = "40ms"
    rates: tuple[str, ...] = ("100mbit", "1gbit")
    rounds: int = 3
    scratch: str = str(SHARED_MEMORY if SHARED_MEMORY.is_dir() else tempfile.gettempdir())

    @property
    def shape(self) -> TreeShape:
        """Return how many files and bytes that is."""
        return SHAPES[self.tree].scaled(self.scale)


QUICK = Effort(scale=0.002, rtt="2ms", rates=("100mbit",), rounds=1)


def sampled(effort: Effort, tell: Tell) -> dict[str, Any]:
    """Run all: `alone` has one run each, `lines` by rate and rival one a round, of which the first has its progress.

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
    """Plant the tree, in a directory that goes when the block ends."""
    shape = effort.shape
    tell(f"planting {shape.files:,} files of {shape.bytes / 1e6:,.0f} MB in {effort.scratch}")
    with tempfile.TemporaryDirectory(dir=effort.scratch, prefix="backup-") as place:
        tree = Path(place, "tree")
        for _ in plant(tree, shape):
            pass
        yield tree
