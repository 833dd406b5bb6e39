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
    digests_in,
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


def test_a_flipped_byte_of_the_data_itself_is_found() -> None:
    data = bytearray(random.Random(1).randbytes(1000))
    packed = bytearray(pack_chunk(bytes(data)))
    packed[500] ^= 1  # random bytes are stored as they are
    with pytest.raises(DamagedChunk, match="another hash"):
        unpack_chunk(digest_of(bytes(data)), bytes(packed))


def test_another_chunk_is_not_taken_for_the_one_asked_for() -> None:
    with pytest.raises(DamagedChunk, match="another hash"):
        unpack_chunk(digest_of(b"one"), pack_chunk(b"other"))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    huge = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    with pytest.raises(DamagedChunk, match="would unpack to 50000000 bytes"):
        unpack_chunk(digest_of(b""), huge)


def test_a_chunk_of_unknown_size_is_refused() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(b"x" * 1000) + stream.flush()
    with pytest.raises(DamagedChunk, match="does not say how large it is"):
        unpack_chunk(digest_of(b"x" * 1000), packed)


@pytest.mark.parametrize("packed", [b"", b"no zstd at all", pack_chunk(b"x" * 1000)[:-3]])
def test_what_zstd_cannot_read_is_damaged(packed: bytes) -> None:
    with pytest.raises(DamagedChunk):
        unpack_chunk(digest_of(b"x" * 1000), packed)


def test_digests_kept_end_to_end_come_apart_again() -> None:
    digests = [digest_of(bytes([number])) for number in range(5)]
    assert digests_in(b"".join(digests)) == digests
    assert digests_in(b"") == []
