"""What stands in a segment: one header, then records. Bytes only: no files here.

    header = magic, version, salt, sequence number of the first record, checksum of these
    record = mark, checksum, length, sequence number, first sequence number of its batch, payload

The checksum is CRC-32: it finds every torn write and every burst of up to 32 wrong bits, zlib has it, and 64 KB take
30 µs. (BLAKE2 would also find a forger, who could write the whole log anew; CRC-32C is no better at this, and a package
more.) It begins with the segment's salt, so that a record of another file, which a payload may contain, is none here.

All records before the first record of a batch were durable when the batch was written. So a valid record shows which
earlier records must also be valid. With this, ``recovery.py`` distinguishes a damaged log from a torn end.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"dhagaWAL"
VERSION: Final = 1
HEADER: Final = struct.Struct("<8sIIQ")
CHECKSUM: Final = struct.Struct("<I")
HEADER_SIZE: Final = HEADER.size + CHECKSUM.size

MARK: Final = b"\xd7rec"
FRAME: Final = struct.Struct(
    "<IQQ"
)  # length, sequence, first of the batch: what the checksum covers besides the payload
RECORD_SIZE: Final = len(MARK) + CHECKSUM.size + FRAME.size
"""Bytes of a record beside its payload."""

MAX_PAYLOAD: Final = 64 << 20
"""Bytes; a length above it is damage, and nothing is allocated for it."""


class WalError(Exception):
    """The log cannot do what is asked of it; the text says why."""


class Corrupt(WalError):
    """What was durable is not what was written. Nothing has been changed: an operator must look at it."""


class InUse(WalError):
    """Another process, or another log in this one, has the directory."""


class Broken(WalError):
    """A write failed. The log takes nothing more; what was acknowledged is kept."""


@dataclass(frozen=True)
class Header:
    """The beginning of a segment."""

    first: int
    salt: int

    @classmethod
    def new(cls, first: int) -> Header:
        """Describe a segment that does not exist yet."""
        return cls(first, secrets.randbits(32))

    def packed(self) -> bytes:
        """Return it as it stands in the file."""
        fields = HEADER.pack(MAGIC, VERSION, self.salt, self.first)
        return fields + CHECKSUM.pack(zlib.crc32(fields))

    @classmethod
    def read(cls, data: bytes, where: object) -> Header:
        """Take it off the beginning of a segment. Raises: Corrupt."""
        if len(data) < HEADER_SIZE or data[: len(MAGIC)] != MAGIC:
            raise Corrupt(f"{where} does not begin as a segment of a log")
        _, version, salt, first = HEADER.unpack_from(data)
        if version != VERSION:
            raise Corrupt(f"{where} has version {version}; this program reads version {VERSION}")
        if CHECKSUM.unpack_from(data, HEADER.size) != (zlib.crc32(data[: HEADER.size]),):
            raise Corrupt(f"the header of {where} has a wrong checksum")
        return cls(first, salt)


@dataclass(frozen=True)
class Record:
    """One record, and where it stands in its segment."""

    sequence: int
    batch: int
    payload: bytes
    offset: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + RECORD_SIZE + len(self.payload)


def packed(salt: int, sequence: int, batch: int, payload: bytes) -> bytes:
    """Return a record as it stands in the file."""
    frame = FRAME.pack(len(payload), sequence, batch)
    return b"".join((MARK, CHECKSUM.pack(checksum(salt, frame, payload)), frame, payload))


def checksum(salt: int, frame: bytes, payload: bytes) -> int:
    """Cover all of a record."""
    return zlib.crc32(payload, zlib.crc32(frame, salt))


def record_at(data: bytes, offset: int, salt: int) -> Record | None:
    """Return the record that begins here, if a whole and right one does."""
    begins = offset + RECORD_SIZE
    if begins > len(data) or not data.startswith(MARK, offset):
        return None
    (wanted,) = CHECKSUM.unpack_from(data, offset + len(MARK))
    frame = data[begins - FRAME.size : begins]
    length, sequence, batch = FRAME.unpack(frame)
    if length > MAX_PAYLOAD or begins + length > len(data):
        return None
    payload = data[begins : begins + length]
    return Record(sequence, batch, payload, offset) if checksum(salt, frame, payload) == wanted else None


def records_in(data: bytes, header: Header) -> Iterator[Record]:
    """Give the records of a segment up to the first that is not right, or not the next."""
    offset, sequence = HEADER_SIZE, header.first
    while (record := record_at(data, offset, header.salt)) is not None and record.sequence == sequence:
        yield record
        offset, sequence = record.end, sequence + 1


def records_after(data: bytes, offset: int, header: Header) -> Iterator[Record]:
    """Give what looks like records anywhere after ``offset``: beyond damage nothing says where the next one begins."""
    while (offset := data.find(MARK, offset + 1)) >= 0:
        record = record_at(data, offset, header.salt)
        if record is not None:
            yield record
