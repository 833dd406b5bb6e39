"""Trees of files made to measure: as many files and bytes as the published runs had, the same each time.

Sizes are log-normal: most files are small, most bytes are in large ones. The logarithms of the sizes of 18,130 files in
a Python environment spread by 1.9, those of 44,309 in /usr/share by 1.5. What is in them is cut from four materials, in
the parts that were found in that environment, where zstd at level 1 packs 37 % of the bytes very well (below 0.3 of
their size), 45 % well (0.5), 14 % badly (0.8) and 4 % hardly, and all together to 0.37.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

SEED = 6
SPREAD = 1.7
FILES_A_DIRECTORY = 32
DIRECTORIES_A_DIRECTORY = 16
MATERIAL = 512 * 1024
"""Bytes of each material. A file begins anywhere in its own, so that hardly ever two files share a chunk."""


@dataclass(frozen=True)
class TreeShape:
    """How many files and bytes there are in a tree of full size."""

    files: int
    bytes: int

    def scaled(self, scale: float) -> "TreeShape":
        """Return a smaller tree, whose files are as large."""
        files = max(1, round(self.files * scale))
        return TreeShape(files, round(files * self.bytes / self.files))


SHAPES = {"files": TreeShape(32_000, 1_000_000_000), "programs": TreeShape(10_000, 2_200_000_000)}
"""Those published. How many files the programs were is not said: 220 KB each is what /usr/bin and /usr/lib have."""

PARTS = {"source": 0.37, "text": 0.45, "records": 0.14, "packed": 0.04}


def sizes(shape: TreeShape) -> list[int]:
    """Return the sizes of all files, from small to large; together they are the bytes of the shape."""
    normal = NormalDist(0, SPREAD)
    raw = [math.exp(normal.inv_cdf((number + 0.5) / shape.files)) for number in range(shape.files)]
    unit = shape.bytes / sum(raw)
    return _whole([unit * each for each in raw])


def _whole(values: list[float]) -> list[int]:
    """Round so that the sum is rounded, not each for itself."""
    whole, total, given = [], 0.0, 0
    for value in values:
        total += value
        whole.append(round(total) - given)
        given += whole[-1]
    return whole


def plant(root: Path, shape: TreeShape, seed: int = SEED) -> Iterator[Path]:
    """Write a tree, file by file. Returns: each file as it is written."""
    chance = random.Random(seed)
    materials = _materials(chance)
    lengths = sizes(shape)
    chance.shuffle(lengths)
    kinds = chance.choices(list(PARTS), list(PARTS.values()), k=shape.files)
    for number, (length, kind) in enumerate(zip(lengths, kinds, strict=True)):
        path = _place(root, number, kind)
        path.write_bytes(_cut(materials[kind], length, chance))
        yield path


def _place(root: Path, number: int, kind: str) -> Path:
    directory = number // FILES_A_DIRECTORY
    path = root / f"d{directory // DIRECTORIES_A_DIRECTORY:03}" / f"e{directory % DIRECTORIES_A_DIRECTORY:02}"
    if number % FILES_A_DIRECTORY == 0:
        path.mkdir(parents=True, exist_ok=True)
    return path / f"{number:05}.{kind}"


def _cut(material: bytes, length: int, chance: random.Random) -> bytes:
    start = chance.randrange(len(material))
    piece = material[start : start + length]
    while len(piece) < length:  # a file longer than its material: the next lap is another one
        piece += material[chance.randrange(len(material)) :][: length - len(piece)]
    return piece


def _materials(chance: random.Random) -> dict[str, bytes]:
    return {
        "source": b" ".join(_words(chance, 100)),
        "text": b" ".join(_words(chance, 1_000)),
        "records": b"".join(word + chance.randbytes(4) for word in _words(chance, 1_000)),
        "packed": chance.randbytes(MATERIAL),
    }


def _words(chance: random.Random, vocabulary: int) -> list[bytes]:
    """Choose so many words that they fill a material, each the less often the later it stands in the vocabulary."""
    letters = b"etaoinshrdlucmfwypvbgkjqxz"
    words = [bytes(chance.choices(letters, range(26, 0, -1), k=chance.randint(2, 9))) for _ in range(vocabulary)]
    return chance.choices(words, [1 / (rank + 2) for rank in range(vocabulary)], k=MATERIAL // 6)
