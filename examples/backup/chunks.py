"""Chunks: how a file is cut, named (blake3) and packed (zstd).

A chunk's name is the hash of its plain bytes, so a reader can check that it got the requested chunk.
Other modules handle files, stores and the network.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from examples._late import Late

from .wire import BackupError

zstandard: Any = Late("zstandard")
blake3: Any = Late("blake3")

CHUNK_SIZE: Final = 256 * 1024  # hashed and packed in 1.4 ms: the longest that a worker keeps its OS thread
BATCH_CHUNKS: Final = 4  # per request: one round trip per MiB, and a worker holds at most this much
PACKED_LIMIT: Final = CHUNK_SIZE + 4096  # incompressible data grows by a few hundred bytes
DIGEST_SIZE: Final = 32
LEVEL: Final = 1  # for the standard library, level 3 saves 4 % more bytes but takes 1.5 times as long


class DamagedChunk(BackupError):
    """Raised for bytes that do not match the name of their chunk."""


class Chunk(NamedTuple):
    """A piece of a file and its name."""

    digest: bytes
    data: bytes


class _Codecs(threading.local):
    """The zstd contexts of one OS thread.

    They are large and not thread-safe; packing never parks, so all dhagas of a thread share them.
    """

    @functools.cached_property
    def compress(self) -> Callable[[bytes], bytes]:
        return zstandard.ZstdCompressor(level=LEVEL).compress  # type: ignore[no-any-return]

    @functools.cached_property
    def decompress(self) -> Callable[..., bytes]:
        return zstandard.ZstdDecompressor().decompress  # type: ignore[no-any-return]


_codecs: Final = _Codecs()


def digest_of(data: bytes) -> bytes:
    """Name a chunk."""
    return blake3.blake3(data).digest()  # type: ignore[no-any-return]


def pack_chunk(data: bytes) -> bytes:
    """Compress a chunk; the packed form carries its plain size."""
    return _codecs.compress(data)


def unpack_chunk(digest: bytes, packed: bytes) -> bytes:
    """Decompress a chunk and check that it matches its name.

    Raises: DamagedChunk. Data whose stated size exceeds a chunk's size is not decompressed.
    """
    if len(packed) > PACKED_LIMIT:
        raise DamagedChunk(f"chunk {digest.hex()} is damaged: its packed form is too long")
    try:
        size = zstandard.get_frame_parameters(packed).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            raise DamagedChunk(f"chunk {digest.hex()} is damaged: it does not say how large it is")
        if size > CHUNK_SIZE:
            raise DamagedChunk(f"chunk {digest.hex()} is damaged: it would unpack to {size} bytes")
        data = _codecs.decompress(packed) if size else b""
    except zstandard.ZstdError as error:
        raise DamagedChunk(f"chunk {digest.hex()} is damaged: {error}") from error
    if digest_of(data) != digest:
        raise DamagedChunk(f"chunk {digest.hex()} is damaged: its bytes have another hash")
    return data


def batches(read: Callable[[int], bytes], size: int) -> Iterator[list[Chunk]]:
    """Cut the data that is read into chunks, and yield batches of chunks. `size`: the expected number of bytes.

    A read that returns less than was requested is the last one, as for a regular file.
    """
    while True:
        wanted = min(BATCH_CHUNKS * CHUNK_SIZE, size + 1)  # the additional byte shows the end without another read
        data = read(wanted)
        if data:
            yield [Chunk(digest_of(piece), piece) for piece in _pieces(data)]
        if len(data) < wanted:
            return
        size = max(size - len(data), CHUNK_SIZE)


def _pieces(data: bytes) -> list[bytes]:
    if len(data) <= CHUNK_SIZE:
        return [data]
    return [data[start : start + CHUNK_SIZE] for start in range(0, len(data), CHUNK_SIZE)]


def digests_in(joined: bytes) -> list[bytes]:
    """Split the concatenated digests of a file."""
    return [joined[start : start + DIGEST_SIZE] for start in range(0, len(joined), DIGEST_SIZE)]
