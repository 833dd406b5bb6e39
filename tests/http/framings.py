"""Framings that two programs may read in two ways, and those that are legal: what each server of ours makes of them.

Bytes only, without a name of Dhaga: ``peer_framings.py`` runs the same table against gevent and eventlet.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
from typing import Any

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
"""What follows a refused request, and must never reach the app."""


def line(text: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join((text, b"Host: x", *fields, b"", b""))


def fields(*lines: bytes) -> bytes:
    return line(b"GET / HTTP/1.1", *lines)


def body(framing: bytes, data: bytes = b"") -> bytes:
    return line(b"POST / HTTP/1.1", framing) + data


def chunks(data: bytes) -> bytes:
    return body(b"Transfer-Encoding: chunked", data)


REFUSED: dict[str, tuple[bytes, int]] = {
    # ---- seen taken by servers of ours before they had one parser
    "a chunk that ends in X and LF": (chunks(b"3\r\nabcX\n0\r\n\r\n"), 400),
    "junk after a chunk size": (chunks(b"3 3\r\nabc\r\n0\r\n\r\n"), 400),
    "a request among the trailers": (chunks(b"0\r\nGET /x HTTP/1.1\r\n\r\n"), 400),
    "a length of 5,000 zeros": (body(b"Content-Length: " + b"0" * 5000), 400),
    "chunked, then identity": (
        fields(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity") + b"0\r\n\r\n",
        400,
    ),
    "a framing behind CR alone": (fields(b"A: b\rTransfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "a form feed behind chunked": (body(b"Transfer-Encoding: chunked\x0c", b"0\r\n\r\n"), 400),
    "a no-break space behind chunked": (body(b"Transfer-Encoding: chunked\xa0", b"0\r\n\r\n"), 400),
    "a no-break space in the target": (line(b"GET /a\xa0b HTTP/1.1"), 400),
    "3,000 fields": (fields(*[b"A%d: b" % number for number in range(3000)]), 431),
    # ---- the request line
    "LF alone everywhere": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "LF alone after the request line": (b"GET / HTTP/1.1\nHost: x\r\n\r\n", 400),
    "LF alone before the request line": (b"\n" + fields(), 400),
    "two empty lines before the request line": (b"\r\n\r\n" + fields(), 400),
    "a space before the request line": (b" " + fields(), 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/0.9 with a version": (line(b"GET / HTTP/0.9"), 505),
    "HTTP/1.2": (line(b"GET / HTTP/1.2"), 505),
    "HTTP/2.0": (line(b"GET / HTTP/2.0"), 505),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "a version of three digits": (line(b"GET / HTTP/1.10"), 400),
    "a version with a leading zero": (line(b"GET / HTTP/01.1"), 400),
    "http in lower case": (line(b"GET / http/1.1"), 400),
    "another protocol": (line(b"GET / RTSP/1.0"), 400),
    "a third one": (line(b"SOURCE / ICE/1.0"), 400),
    "a method in lower case": (line(b"get / HTTP/1.1"), 400),
    "a method nobody knows": (line(b"FROBNICATE / HTTP/1.1"), 501),
    "a method of another protocol": (line(b"DESCRIBE / HTTP/1.1"), 400),
    "a method with a NUL": (line(b"GE\0T / HTTP/1.1"), 400),
    "no method": (line(b" / HTTP/1.1"), 400),
    "two spaces before the target": (line(b"GET  / HTTP/1.1"), 400),
    "two spaces after the target": (line(b"GET /  HTTP/1.1"), 400),
    "a tab before the target": (line(b"GET\t/ HTTP/1.1"), 400),
    "a space at the end": (line(b"GET / HTTP/1.1 "), 400),
    "CR within": (line(b"GET /\r HTTP/1.1"), 400),
    "TLS on a plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    # ---- the target
    "a space in the target": (line(b"GET /a b HTTP/1.1"), 400),
    "a control in the target": (line(b"GET /a\x01b HTTP/1.1"), 400),
    "a NUL in the target": (line(b"GET /a\0b HTTP/1.1"), 400),
    "DEL in the target": (line(b"GET /a\x7fb HTTP/1.1"), 400),
    "UTF-8 in the target": (line("GET /ä HTTP/1.1".encode()), 400),
    "a fragment": (line(b"GET /a#b HTTP/1.1"), 400),
    "a path without a slash": (line(b"GET a HTTP/1.1"), 400),
    "* for GET": (line(b"GET * HTTP/1.1"), 400),
    "an authority for GET": (line(b"GET x:80 HTTP/1.1"), 400),
    "a path for CONNECT": (line(b"CONNECT / HTTP/1.1"), 400),
    "CONNECT without a port": (line(b"CONNECT x HTTP/1.1"), 400),
    "CONNECT with a body": (line(b"CONNECT x:80 HTTP/1.1", b"Content-Length: 3") + b"abc", 400),
    "another scheme": (line(b"GET ftp://x/ HTTP/1.1"), 400),
    "a URL without a host": (line(b"GET http:/// HTTP/1.1"), 400),
    "a URL with a user": (line(b"GET http://user@x/ HTTP/1.1"), 400),
    # ---- fields
    "LF alone after a field": (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    "LF alone at the end": (b"GET / HTTP/1.1\r\nHost: x\r\n\n\r\n\r\n", 400),
    "CR alone in a value": (fields(b"A: b\rC: d"), 400),
    "CR alone at the end": (b"GET / HTTP/1.1\r\nHost: x\r\r\n\r\n", 400),
    "NUL in a value": (fields(b"A: b\0c"), 400),
    "NUL in a name": (fields(b"A\0b: c"), 400),
    "a control in a value": (fields(b"A: b\x01c"), 400),
    "DEL in a value": (fields(b"A: b\x7fc"), 400),
    "a space before the colon": (fields(b"Content-Length : 3"), 400),
    "a tab before the colon": (fields(b"A\t: b"), 400),
    "a space before a name": (fields(b" A: b"), 400),
    "a folded value": (fields(b"A: b\r\n c"), 400),
    "a value folded by a tab": (fields(b"A: b\r\n\tc"), 400),
    "a folded request line": (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    "a folded Transfer-Encoding": (body(b"Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"), 400),
    "no name": (fields(b": b"), 400),
    "no colon": (fields(b"Abc"), 400),
    "a space in a name": (fields(b"A b: c"), 400),
    "UTF-8 in a name": (fields("ä: b".encode()), 400),
    "a parenthesis in a name": (fields(b"A(: b"), 400),
    # ---- Host
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "Host twice": (fields(b"Host: y"), 400),
    "Host twice, and the same": (fields(b"host: x"), 400),
    "a path in Host": (b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
    "a space in Host": (b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
    "a user in Host": (b"GET / HTTP/1.1\r\nHost: a@x\r\n\r\n", 400),
    "two hosts in Host": (b"GET / HTTP/1.1\r\nHost: x, y/\r\n\r\n", 400),
    "a port that is none": (b"GET / HTTP/1.1\r\nHost: x:y\r\n\r\n", 400),
    "a bad Host in HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: x/y\r\n\r\n", 400),
    # ---- Content-Length
    "two lengths": (fields(b"Content-Length: 3", b"Content-Length: 4") + b"abcd", 400),
    "a length twice": (fields(b"Content-Length: 3", b"Content-Length: 3") + b"abc", 400),
    "a list of lengths": (body(b"Content-Length: 3, 3", b"abc"), 400),
    "a positive length": (body(b"Content-Length: +3", b"abc"), 400),
    "a negative length": (body(b"Content-Length: -3", b"abc"), 400),
    "a hexadecimal length": (body(b"Content-Length: 0x3", b"abc"), 400),
    "a length with an underscore": (body(b"Content-Length: 1_0", b"abc"), 400),
    "a length of words": (body(b"Content-Length: three", b"abc"), 400),
    "no length in Content-Length": (body(b"Content-Length:", b"abc"), 400),
    "a length above 64 bits": (body(b"Content-Length: 99999999999999999999", b"abc"), 400),
    "a length of 5,000 zeros and a three": (body(b"Content-Length: " + b"0" * 5000 + b"3", b"abc"), 400),
    "an upgrade with an unknown coding": (
        line(b"POST / HTTP/1.1", b"Connection: upgrade", b"Upgrade: x", b"Transfer-Encoding: xchunked"),
        400,
    ),
    "a method without end": (line(b"A" * 33 + b" / HTTP/1.1"), 400),
    "a chunk's line without end": (chunks(b"1;" + b"x" * 2000 + b"\r\nx\r\n0\r\n\r\n"), 400),
    "a space in the length": (body(b"Content-Length: 3 3", b"abc"), 400),
    "a vertical tab in the length": (body(b"Content-Length: \x0b3", b"abc"), 400),
    "a length above the limit": (body(b"Content-Length: 1001"), 413),
    # ---- Transfer-Encoding
    "both lengths": (fields(b"Transfer-Encoding: chunked", b"Content-Length: 3") + b"0\r\n\r\n", 400),
    "both lengths, the other way": (fields(b"Content-Length: 3", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "chunked twice": (fields(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "chunked twice in a list": (body(b"Transfer-Encoding: chunked, chunked", b"0\r\n\r\n"), 400),
    "chunked before another": (body(b"Transfer-Encoding: chunked, gzip", b"0\r\n\r\n"), 400),
    "another before chunked": (body(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"), 501),
    "another in a field before": (
        fields(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
        400,
    ),
    "another alone": (body(b"Transfer-Encoding: gzip", b"0\r\n\r\n"), 400),
    "identity": (body(b"Transfer-Encoding: identity", b"0\r\n\r\n"), 400),
    "xchunked": (body(b"Transfer-Encoding: xchunked", b"0\r\n\r\n"), 400),
    "chunkedx": (body(b"Transfer-Encoding: chunkedx", b"0\r\n\r\n"), 400),
    "chunked with a comma": (body(b"Transfer-Encoding: chunked,", b"0\r\n\r\n"), 400),
    "chunked after a comma": (body(b"Transfer-Encoding: ,chunked", b"0\r\n\r\n"), 501),
    "chunked with a parameter": (body(b"Transfer-Encoding: chunked;q=1", b"0\r\n\r\n"), 400),
    "chunked in quotes": (body(b'Transfer-Encoding: "chunked"', b"0\r\n\r\n"), 400),
    "chunked after a vertical tab": (body(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n"), 400),
    "no coding": (body(b"Transfer-Encoding:", b"0\r\n\r\n"), 400),
    "chunked in HTTP/1.0": (line(b"POST / HTTP/1.0", b"Transfer-Encoding: chunked") + b"0\r\n\r\n", 400),
    "a body and both at an upgrade": (
        fields(b"Upgrade: a", b"Connection: Upgrade", b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        400,
    ),
    # ---- chunks
    "LF alone after chunk sizes": (chunks(b"3\nabc\n0\n\n"), 400),
    "LF alone after a chunk": (chunks(b"3\r\nabc\n0\r\n\r\n"), 400),
    "CR alone after a chunk size": (chunks(b"3\rabc\r\n0\r\n\r\n"), 400),
    "a space after a chunk size": (chunks(b"3 \r\nabc\r\n0\r\n\r\n"), 400),
    "a space before a chunk size": (chunks(b" 3\r\nabc\r\n0\r\n\r\n"), 400),
    "0x before a chunk size": (chunks(b"0x3\r\nabc\r\n0\r\n\r\n"), 400),
    "a positive chunk size": (chunks(b"+3\r\nabc\r\n0\r\n\r\n"), 400),
    "a negative chunk size": (chunks(b"-3\r\nabc\r\n0\r\n\r\n"), 400),
    "an underscore in a chunk size": (chunks(b"0_3\r\nabc\r\n0\r\n\r\n"), 400),
    "a chunk size above 64 bits": (chunks(b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"), 400),
    "a chunk size that is none": (chunks(b"g\r\nabc\r\n0\r\n\r\n"), 400),
    "no chunk size": (chunks(b"\r\nabc\r\n0\r\n\r\n"), 400),
    "a chunk that is longer than it says": (chunks(b"3\r\nabcd\r\n0\r\n\r\n"), 400),
    "a chunk that is shorter than it says": (chunks(b"4\r\nabc\r\n0\r\n\r\n"), 400),
    "no end of a chunk": (chunks(b"3\r\nabc0\r\n\r\n"), 400),
    "LF in an extension": (chunks(b"3;a\nb\r\nabc\r\n0\r\n\r\n"), 400),
    "CR in an extension": (chunks(b"3;a\rb\r\nabc\r\n0\r\n\r\n"), 400),
    "NUL in an extension": (chunks(b"3;a\0\r\nabc\r\n0\r\n\r\n"), 400),
    "an extension without a name": (chunks(b"3;\r\nabc\r\n0\r\n\r\n"), 400),
    "extensions without end": (chunks(b"1;" + b"a" * 20_000 + b"\r\na\r\n0\r\n\r\n"), 400),
    "trailers without end": (chunks(b"0\r\n" + b"A: bcdefgh\r\n" * 2000 + b"\r\n"), 400),
    "a length among the trailers": (chunks(b"0\r\nContent-Length: 5\r\n\r\n"), 400),
    "a coding among the trailers": (chunks(b"0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
    "a space before a colon in a trailer": (chunks(b"0\r\nA : b\r\n\r\n"), 400),
    "LF alone after a trailer": (chunks(b"0\r\nA: b\n\r\n"), 400),
    "a folded trailer": (chunks(b"0\r\nA: b\r\n c\r\n\r\n"), 400),
    "chunks above the limit": (chunks(b"3e9\r\n" + b"a" * 1001 + b"\r\n0\r\n\r\n"), 413),
    # ---- what is too large, or not to be had
    "a target above the limit": (line(b"GET /" + b"a" * 8200 + b" HTTP/1.1"), 414),
    "a target without end": (b"GET /" + b"a" * 70_000, 414),
    "a field above the limit": (fields(b"A: " + b"a" * 8200), 431),
    "a name above the limit": (fields(b"A" * 8200 + b": a"), 431),
    "fields above the limit": (fields(*[b"A: a"] * 101), 431),
    "a head above the limit": (fields(*[b"A: " + b"a" * 8000] * 9), 431),
    "a head without end": (b"GET / HTTP/1.1\r\n" + (b"A: " + b"a" * 8000 + b"\r\n") * 10, 431),
    "another expectation": (fields(b"Expect: 200-ok", b"Content-Length: 3") + b"abc", 417),
}

LEGAL: dict[str, tuple[bytes, str]] = {
    "a length with a leading zero": (body(b"Content-Length: 03", b"abc"), "abc"),
    "a length with a space after it": (body(b"Content-Length: 3 ", b"abc"), "abc"),
    "a length between tabs": (body(b"Content-Length:\t3\t", b"abc"), "abc"),
    "a body for GET": (fields(b"Content-Length: 3") + b"abc", "abc"),
    "CHUNKED": (body(b"Transfer-Encoding: CHUNKED", b"3\r\nabc\r\n0\r\n\r\n"), "abc"),
    "chunked after a tab": (body(b"Transfer-Encoding:\tchunked", b"3\r\nabc\r\n0\r\n\r\n"), "abc"),
    "an extension": (chunks(b'3;a=b;c="d;\\"e"\r\nabc\r\n0\r\n\r\n'), "abc"),
    "leading zeros of a chunk size": (chunks(b"00000000000000000003\r\nabc\r\n00\r\n\r\n"), "abc"),
    "a trailer": (chunks(b"3\r\nabc\r\n0\r\nA: b\r\nHost: y\r\nHost: z\r\n\r\n"), "abc"),
    "what looks like an end, in a chunk": (chunks(b"7\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n"), "0\r\n\r\n\r\n"),
    "an empty line before the request line": (b"\r\n" + fields(), ""),
    "a body at an upgrade": (fields(b"Upgrade: a", b"Connection: Upgrade", b"Content-Length: 3") + b"abc", "abc"),
    "chunks at an upgrade": (
        fields(b"Upgrade: a", b"Connection: Upgrade", b"Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n",
        "abc",
    ),
    "an upgrade that the app does not make": (fields(b"Upgrade: h2c", b"Connection: Upgrade"), ""),
}
"""What is no offence: the app gets that body, and then the request that follows."""


# ---- the fuzzer

ODD = [
    *(b"\n", b"\r", b"\r\n", b" ", b"\t", b"\0", b"\x0b", b"\x0c", b"\x85", b"\xa0", b"\xff"),
    *(b"0", b"00", b"1", b"+", b"-", b"0x", b"_", b";", b";a=b", b",", b":", b'"', b"#", b"chunked", b"identity"),
    *(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"Content-Length: 3\r\n"),
    *(b"Connection: close\r\n", b"Host: y\r\n", b"A: b\r\n c\r\n", b"HTTP/1.0", b"0\r\n\r\n"),
]
"""What is put between, or in place of, the tokens of valid requests."""


class Dice:
    """Seeded choices, the same on every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def below(self, bound: int) -> int:
        return int(self.random() * bound)

    def of(self, choices: list[bytes]) -> bytes:
        return choices[self.below(len(choices))]


def tokens(dice: Dice, path: bytes) -> list[bytes]:
    """Return a valid request in the pieces between which faults are put."""
    kind = dice.below(3)
    found = [
        b"GET" if kind == 0 else b"POST",
        b" ",
        path,
        b" ",
        b"HTTP/1.1",
        b"\r\n",
        b"Host",
        b":",
        b" ",
        b"x",
        b"\r\n",
    ]
    if dice.below(2):
        found += [b"Accept", b":", b" ", b"*/*", b"\r\n"]
    if kind == 1:
        found += [b"Content-Length", b":", b" ", b"3", b"\r\n", b"\r\n", b"abc"]
    elif kind == 2:
        found += [b"Transfer-Encoding", b":", b" ", b"chunked", b"\r\n", b"\r\n"]
        found += [b"3", b";a=b" if dice.below(2) else b"", b"\r\n", b"abc", b"\r\n", b"2", b"\r\n", b"de", b"\r\n"]
        found += [b"0", b"\r\n", *([b"T", b":", b" ", b"u", b"\r\n"] if dice.below(2) else []), b"\r\n"]
    else:
        found.append(b"\r\n")
    return found


def fuzzed(seed: int) -> bytes:
    """Return requests, pipelined, with one to three faults."""
    dice = Dice(seed)
    found = [piece for number in range(1 + dice.below(2)) for piece in tokens(dice, b"/%d" % number)]
    for _ in range(1 + dice.below(3)):
        place, way = dice.below(len(found)), dice.below(4)
        if way == 0:
            found[place] = dice.of(ODD)
        elif way == 1:
            del found[place]
        elif way == 2:
            found.insert(place, found[place])
        else:
            found.insert(place, dice.of(ODD))
    return b"".join(found) + SMUGGLED


# ---- what a server made of it

Understood = list[tuple[str, str, str]]
"""The requests that reached the app: method, path, body."""


def telling(environ: Any, start_response: Any) -> list[bytes]:
    """An app that answers with what it was asked."""
    body = environ["wsgi.input"].read().decode("latin-1")
    told = json.dumps([environ["REQUEST_METHOD"], environ["PATH_INFO"], body]).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(told)))])
    return [told]


def understood(connect: Any, address: Any, data: bytes) -> tuple[Understood, str]:
    """Send data and the end, and return the requests that were understood, and the status of what was refused.

    ``connect``: ``socket.create_connection``, of the standard or ours. The status is empty if the connection was closed
    without an answer, or was reset before it could be read.
    """
    received = b""
    with connect(address, 30) as sock:
        with contextlib.suppress(OSError):  # refused, and reset, before all was sent
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while more := sock.recv(65_536):
                received += more
    found: Understood = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        status = head[9:12].decode()
        length = re.search(rb"(?i)content-length: *([0-9]+)", head)
        size = int(length[1]) if length else 0
        if status == "200":
            found.append(tuple(json.loads(rest[:size])))
        elif status[0] != "1":
            return found, status
        received = rest[size:]
    return found, ""
