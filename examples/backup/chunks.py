"""Chunks: how a file is cut, named (blake3) and packed (zstd).

A chunk's name is the hash of its plain bytes, so that its reader can tell whether it is the one it asked for.
Files, stores and the network are elsewhere.
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
BATCH_CHUNKS: Final = 4  # asked for together: one round trip a MiB, and no worker holds more than that
PACKED_LIMIT: Final = CHUNK_SIZE + 4096  # what cannot be compressed grows by a few hundred bytes
DIGEST_SIZE: Final = 32
LEVEL: Final = 1  # of the standard library, level 3 makes 4 % less and takes 1.5 times as long


class DamagedChunk(BackupError):
    """Bytes that are not the chunk whose name they bear."""


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
    """Decompress a chunk and check that it is the one named.

    Raises: DamagedChunk. What announces more than a chunk's size is not decompressed at all.
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
    """Cut what is read into chunks, and give them a batch at a time; `size` is what there probably is.

    A read that gives less than it was asked for is the end: so it is with a regular file.
    """
    while True:
        wanted = min(BATCH_CHUNKS * CHUNK_SIZE, size + 1)  # the one more tells the end without another read
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
    """Take apart the digests of a file, kept end to end."""
    return [joined[start : start + DIGEST_SIZE] for start in range(0, len(joined), DIGEST_SIZE)]
