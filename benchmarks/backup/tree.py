"""Generated trees of files, with the numbers of files and bytes of the published runs. Each run gets the same tree.

Sizes are log-normal: most files are small, but most bytes are in large files. The logarithms of the sizes have a
standard deviation of 1.9 for 18,130 files of a Python environment, and of 1.5 for 44,309 files in /usr/share. Contents
are cut from four materials, in the proportions of that environment. There, zstd at level 1 compresses 37 % of the bytes
to less than 0.3 of their size, 45 % to 0.5, 14 % to 0.8 and 4 % hardly; the total is compressed to 0.37.
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
"""Number of bytes of each material. A file begins at a random place of its material, so files hardly share chunks."""


@dataclass(frozen=True)
class TreeShape:
    """The numbers of files and bytes of a tree."""

    files: int
    bytes: int

    def scaled(self, scale: float) -> "TreeShape":
        """Return the shape of a smaller tree, whose files have the same mean size."""
        files = max(1, round(self.files * scale))
        return TreeShape(files, round(files * self.bytes / self.files))


SHAPES = {"files": TreeShape(32_000, 1_000_000_000), "programs": TreeShape(10_000, 2_200_000_000)}
"""The published trees. The number of programs was not published; 220 KB is the mean size in /usr/bin and /usr/lib."""

PARTS = {"source": 0.37, "text": 0.45, "records": 0.14, "packed": 0.04}


def sizes(shape: TreeShape) -> list[int]:
    """Return the sizes of all files, from small to large; together they are the bytes of the shape."""
    normal = NormalDist(0, SPREAD)
    raw = [math.exp(normal.inv_cdf((number + 0.5) / shape.files)) for number in range(shape.files)]
    unit = shape.bytes / sum(raw)
    return _whole([unit * each for each in raw])


def _whole(values: list[float]) -> list[int]:
    """Round the values so that their sum is rounded correctly."""
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
    while len(piece) < length:  # the file is longer than the rest of the material: continue at another random place
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
    """Choose enough words to fill a material. Words at the beginning of the vocabulary are chosen more often."""
    letters = b"etaoinshrdlucmfwypvbgkjqxz"
    words = [bytes(chance.choices(letters, range(26, 0, -1), k=chance.randint(2, 9))) for _ in range(vocabulary)]
    return chance.choices(words, [1 / (rank + 2) for rank in range(vocabulary)], k=MATERIAL // 6)
