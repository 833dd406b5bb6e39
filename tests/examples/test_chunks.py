"""Chunks: cut without loss, named by their bytes, refused when they are not what their name says."""

from __future__ import annotations

import io
import random

import pytest
import zstandard

from examples.backup.chunks import (
    BATCH_CHUNKS,
    CHUNK_SIZE,
    DamagedChunk,
    batches,
    digest_of,
    pack_chunk,
    unpack_chunk,
)


@pytest.mark.parametrize("expected", [0, 1, CHUNK_SIZE, 10**12])
@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, BATCH_CHUNKS * CHUNK_SIZE, 3_000_000]
)
def test_the_chunks_of_a_file_are_its_bytes_whatever_size_was_expected(size: int, expected: int) -> None:
    data = random.Random(size).randbytes(size)
    found = list(batches(io.BytesIO(data).read, expected))
    chunks = [chunk for batch in found for chunk in batch]
    assert b"".join(chunk.data for chunk in chunks) == data
    assert [chunk.digest for chunk in chunks] == [digest_of(chunk.data) for chunk in chunks]
    assert all(0 < len(chunk.data) <= CHUNK_SIZE for chunk in chunks)
    assert all(len(batch) <= BATCH_CHUNKS for batch in found)


@pytest.mark.parametrize("data", [b"", b"x", b"the same line\n" * 10_000, random.Random(1).randbytes(CHUNK_SIZE)])
def test_a_packed_chunk_unpacks_to_its_bytes(data: bytes) -> None:
    assert unpack_chunk(digest_of(data), pack_chunk(data)) == data


def test_any_flipped_byte_of_a_packed_chunk_is_found() -> None:
    data = b"some text, " * 30 + random.Random(1).randbytes(60)
    packed = pack_chunk(data)
    for place in range(len(packed)):
        flipped = bytearray(packed)
        flipped[place] ^= 0x10
        try:
            assert unpack_chunk(digest_of(data), bytes(flipped)) == data  # a bit that zstd does not use
        except DamagedChunk as error:
            assert digest_of(data).hex() in str(error)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    huge = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    with pytest.raises(DamagedChunk, match="would unpack to 50000000 bytes"):
        unpack_chunk(digest_of(b""), huge)
