"""The trees of the backup experiment are what they say: so many files and bytes, and the same each time."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import zstandard

from benchmarks.backup.tree import SHAPES, TreeShape, plant, sizes

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("scale", [0.001, 0.0123, 1.0])
def test_sizes_are_those_of_the_shape_at_every_scale(name: str, scale: float) -> None:
    shape = SHAPES[name].scaled(scale)
    found = sizes(shape)
    assert (len(found), sum(found)) == (shape.files, shape.bytes)
    assert min(found) >= 0
    assert shape.bytes / shape.files == pytest.approx(SHAPES[name].bytes / SHAPES[name].files, rel=1e-6)


def test_most_files_are_small_and_most_bytes_are_in_large_ones() -> None:
    found = sizes(SHAPES["files"].scaled(0.1))
    mean = statistics.mean(found)
    assert statistics.median(found) < mean / 3
    assert sum(size for size in found if size > mean) > 0.7 * sum(found)


def planted(root: Path, seed: int = 6) -> dict[str, bytes]:
    shape = TreeShape(40, 40 * 31_250)
    return {str(path.relative_to(root)): path.read_bytes() for path in plant(root, shape, seed)}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return planted(tmp_path_factory.mktemp("tree"))


def test_it_packs_about_as_well_as_real_trees_do(one: dict[str, bytes]) -> None:
    files = one.values()
    pack = zstandard.ZstdCompressor(level=1).compress
    assert 0.3 < sum(len(pack(data)) for data in files) / sum(map(len, files)) < 0.5
