"""The attacks: functions that misbehave towards an address until they are killed. ``python -m tests.hostile.attacks``.

Each runs in a process of its own, as it would otherwise slow down the client that measures.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Address = tuple[str, int]

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
LINGER_NONE = struct.pack("ii", 1, 0)  # close sends a RST

Attack = Callable[[Address], None]


@contextlib.contextmanager
def connected(address: Address, reads: bool = True) -> Iterator[socket.socket]:
    """Give a connection; what comes back is read and dropped."""
    with socket.create_connection(address) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if reads:
            threading.Thread(target=drop, args=(sock,), daemon=True).start()
        yield sock


def drop(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(1 << 20):
            pass


def send_for_ever(address: Address, pieces: Callable[[], Iterable[bytes]], reads: bool = True) -> None:
    """Send over one connection, and over the next when that has been cut."""
    while True:
        with contextlib.suppress(OSError), connected(address, reads) as sock:
            for piece in pieces():
                sock.sendall(piece)


# ---- fast senders


def pipelining(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(GET * 2000))


def pipelining_unread(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(GET * 2000), reads=False)


def fast_upload(address: Address) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (1 << 40)
    send_for_ever(address, lambda: itertools.chain([head], itertools.repeat(bytes(1 << 20))))


def fast_download(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(GET.replace(b"/ ", b"/big ", 1) * 100))


def echo_flood(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(b"x" * (1 << 16)))


def sink_flood(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat((b"sink" * 1024) * 16))


# ---- WebSockets: frames with a mask of zeros, which leaves their bytes as they are

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT, PING, FIRST, NEXT = (bytes([kind, 0x81, 0, 0, 0, 0, ord("x")]) for kind in (0x81, 0x89, 0x01, 0x00))


def websocket_messages(address: Address) -> None:
    send_for_ever(address, lambda: itertools.chain([UPGRADE], itertools.repeat(TEXT * 2000)))


def websocket_unread(address: Address) -> None:
    send_for_ever(address, lambda: itertools.chain([UPGRADE], itertools.repeat(TEXT * 2000)), reads=False)


def websocket_pings(address: Address) -> None:
    send_for_ever(address, lambda: itertools.chain([UPGRADE], itertools.repeat(PING * 2000)))


def websocket_fragments(address: Address) -> None:
    """Send one message that never ends, a byte in each of its frames."""
    send_for_ever(address, lambda: itertools.chain([UPGRADE, FIRST], itertools.repeat(NEXT * 2000)))


# ---- dear bytes


def chunks(*parts: bytes) -> bytes:
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def blank_lines(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(chunks(b"\r\n" * (1 << 20))))


def small_chunks(address: Address) -> None:
    send_for_ever(address, lambda: itertools.repeat(chunks(*[b"x"] * 50_000)))


def heads_by_bytes(address: Address) -> None:
    """Ten connections whose heads come byte by byte, 60 KB each, as fast as they are taken."""
    lines = b"".join(b"X-%02d: %b\r\n" % (n, b"a" * 600) for n in range(99))
    at_once(
        10, send_for_ever, address, lambda: [b"GET / HTTP/1.1\r\nHost: x\r\n" + lines[:30_000], *octets(lines[30_000:])]
    )


def octets(data: bytes) -> Iterator[bytes]:
    for n in range(len(data)):
        yield data[n : n + 1]
        time.sleep(0.01)


def malformed_requests(address: Address) -> None:
    """Requests with two bytes changed, one a connection."""
    whole = [GET, chunks(b"abc"), b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"0" * 5000 + b"3\r\n\r\nabc"]
    whole.append(
        b"POST / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: upgrade\r\nTransfer-Encoding: xchunked\r\n\r\n"
    )
    rng = random.Random(1)

    def damaged() -> list[bytes]:
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return [bytes(data)]

    while True:
        with contextlib.suppress(OSError), connected(address, reads=False) as sock:
            sock.settimeout(1)
            sock.sendall(damaged()[0])
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass


# ---- slow and short ones


def trickling_bodies(address: Address) -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    at_once(100, send_for_ever, address, lambda: itertools.chain([head], octets(b"x" * 1_000_000)))


def connections(address: Address) -> None:
    """Three that connect and leave, 100 times a second each.

    As fast as they can they fill the kernel's backlog, which then drops the SYNs of all: no server can mend that.
    """
    at_once(3, send_for_ever, address, lambda: [pause()])


def pause() -> bytes:
    time.sleep(0.01)
    return b""


def bursts(address: Address) -> None:
    """Forty clients that connect together and ask once each, again and again."""
    while True:
        with contextlib.ExitStack() as clients, contextlib.suppress(OSError):
            together = [clients.enter_context(socket.create_connection(address, 5)) for _ in range(40)]
            for sock in together:
                sock.sendall(GET)
            for sock in together:
                sock.recv(1 << 16)


def resets(address: Address) -> None:
    """Reset connections in the middle of a request or of its answer."""
    for part in itertools.cycle((GET[:9], GET)):
        with contextlib.suppress(OSError), socket.create_connection(address, 1) as sock:
            sock.sendall(part)
            time.sleep(0.002)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)


def at_once(count: int, attack: Callable[..., None], *args: Any) -> None:
    """Run so many of an attack in OS threads."""
    threads = [threading.Thread(target=attack, args=args) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def find(name: str) -> Attack:
    """Return the attack that a name here, or ``module:function``, means."""
    module, _, function = name.rpartition(":")
    found: Attack = getattr(importlib.import_module(module or __spec__.name), function)
    return found


if __name__ == "__main__":
    find(sys.argv[1])((sys.argv[2], int(sys.argv[3])))
