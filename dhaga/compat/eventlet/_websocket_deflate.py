"""The WebSocket extension ``permessage-deflate`` (RFC 7692): its negotiation, compressor and decompressor."""

from __future__ import annotations

import zlib
from typing import Any

from ..._kernel.run.turn_budget import yield_if_due

NAME = "permessage-deflate"
TAIL = b"\x00\x00\xff\xff"
"""The bytes that the compressor adds to the end of each message; they are not sent (RFC 7692, 7.2.1)."""

FLAGS = "server_no_context_takeover", "client_no_context_takeover"
WINDOWS = "server_max_window_bits", "client_max_window_bits"
PIECE = 65_536
"""Number of bytes decompressed before a yield. 8 KB can expand to 8 MB, which took 28 ms in one piece."""

MAX_BITS = 15
MIN_BITS = 9
"""zlib's smallest window for compression has 2**9 bytes; the RFC also allows 2**8."""


def negotiate(header: str) -> dict[str, dict[str, Any]]:
    """Return the parameters of the first acceptable offer, under the extension's name; {} if there is no such offer."""
    for offer in header.lower().split(","):
        name, *parts = (part.strip() for part in offer.split(";"))
        if name != NAME:
            continue
        found = parameters([part for part in parts if part])
        if found is not None:
            return {NAME: found}
    return {}


def parameters(parts: list[str]) -> dict[str, Any] | None:
    """Return the parameters of an offer; None if a parameter is unknown, repeated, or out of range."""
    found: dict[str, Any] = dict.fromkeys(FLAGS, False)
    seen: set[str] = set()
    for part in parts:
        name, equals, value = (piece.strip(' "') for piece in part.partition("="))
        if name in seen:
            return None
        seen.add(name)
        if name in FLAGS and not equals:
            found[name] = True
        elif name in WINDOWS and not equals:
            found[name] = MAX_BITS
        elif name in WINDOWS and value.isdigit() and MIN_BITS <= int(value) <= MAX_BITS:
            found[name] = int(value)
        else:
            return None
    return found


def answer(extensions: dict[str, dict[str, Any]]) -> str:
    """Return the value of Sec-WebSocket-Extensions that accepts the offer."""
    found = extensions[NAME]
    flags = [name for name in FLAGS if found[name]]
    return "; ".join([NAME, *flags, *(f"{name}={found[name]}" for name in WINDOWS if name in found)])


class Direction:
    """The settings of one direction. ``forgets``: whether each message starts with an empty window."""

    def __init__(self, found: dict[str, Any], side: str) -> None:
        self.bits = found.get(f"{side}_max_window_bits", MAX_BITS)
        self.forgets = bool(found.get(f"{side}_no_context_takeover"))
        self.stream: Any = None


class Deflater(Direction):
    """Compressor of sent messages."""

    def compress(self, data: bytes) -> bytes:
        """Return a message in compressed form."""
        if self.stream is None or self.forgets:
            self.stream = zlib.compressobj(wbits=-self.bits)
        whole: bytes = self.stream.compress(data) + self.stream.flush(zlib.Z_SYNC_FLUSH)
        return whole.removesuffix(TAIL)


class Inflater(Direction):
    """Decompressor of received messages."""

    def decompress(self, data: bytes, limit: int) -> bytes | None:
        """Return a message in decompressed form; None if it has more than ``limit`` bytes.

        Parks: to yield, if the caller's turn is too long. Raises: zlib.error.
        """
        if self.stream is None or self.forgets:
            self.stream = zlib.decompressobj(wbits=-self.bits)
        found, rest = bytearray(), data + TAIL
        while True:
            piece = self.stream.decompress(rest, PIECE)
            found += piece
            if len(found) > limit:
                return None
            if len(piece) < PIECE:
                return bytes(found)
            rest = self.stream.unconsumed_tail
            yield_if_due()
