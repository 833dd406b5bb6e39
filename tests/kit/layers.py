"""Operations at every layer, from fds to file objects: a plain and a patched run must print the same.

Run: ``python tests/kit/layers.py`` and ``python -m dhaga tests/kit/layers.py``. A case is a way to write, read, wait
for a child, connect or obey a timeout of the operating system, with a peer that is slow, silent or dying.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Callable
from typing import Any

SIZE = 300_000
PAUSE = 0.02
PATIENCE = float(os.environ.get("LAYERS_PATIENCE", "20"))
OUTCOMES: dict[str, str] = {}


def said(call: Callable[[], Any]) -> str:
    """Return the outcome of a call: its value or its error."""
    try:
        return repr(call())
    except BaseException as error:
        return f"{type(error).__name__} {getattr(error, 'errno', '')}".strip()


class Case(threading.Thread):
    """A thread that runs a case."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.case, self.call = name, call
        OUTCOMES[name] = "waits for ever"
        self.start()

    def run(self) -> None:
        OUTCOMES[self.case] = said(self.call)


# ---- writing


def writers(fd: int) -> dict[str, Callable[[Any], Any]]:
    """Return the ways to write to an fd."""
    raw = os.fdopen(fd, "wb", 0, closefd=False)

    def buffered(data: Any) -> Any:
        file = os.fdopen(os.dup(fd), "wb")
        try:
            return file.write(data), file.flush()
        finally:
            with contextlib.suppress(OSError):
                file.close()

    def text(data: Any) -> Any:
        file = os.fdopen(os.dup(fd), "w")
        try:
            return file.write("x" * len(data)), file.flush()
        finally:
            with contextlib.suppress(OSError):
                file.close()

    return {
        "os.write": lambda data: os.write(fd, data),
        "os.write of a bytearray": lambda data: os.write(fd, bytearray(data)),
        "os.writev": lambda data: os.writev(fd, [data[:1000], data[1000:]]),
        "raw file": raw.write,
        "raw file, mutable": lambda data: raw.write(bytearray(data)),
        "buffered file": buffered,
        "text file": text,
        "Connection": lambda data: multiprocessing.connection.Connection(os.dup(fd), readable=False).send_bytes(data),
    }


def file_of(data: bytes) -> int:
    """Return an fd of an unnamed file that contains ``data``."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return os.dup(file.fileno())


SENDS: dict[str, Callable[[socket.socket, bytes], Any]] = {
    "send": lambda sock, data: sock.send(data),
    "send of a bytearray": lambda sock, data: sock.send(bytearray(data)),
    "send, flags": lambda sock, data: sock.send(data, socket.MSG_NOSIGNAL),
    "send, MSG_DONTWAIT": lambda sock, data: sock.send(data, socket.MSG_DONTWAIT),
    "sendmsg": lambda sock, data: sock.sendmsg([data[:1000], memoryview(data[1000:]).cast("I")]),
    "sendto": lambda sock, data: sock.sendto(data, sock.getpeername()),
    "sendto, flags": lambda sock, data: sock.sendto(data, 0, sock.getpeername()),
    "raw makefile": lambda sock, data: sock.makefile("wb", buffering=0).write(data),
    "os.write": lambda sock, data: os.write(sock.fileno(), data),
    "os.writev": lambda sock, data: os.writev(sock.fileno(), [data[:1000], data[1000:]]),
    "os.sendfile": lambda sock, data: os.sendfile(sock.fileno(), file_of(data), 0, len(data)),
}
"""The ways to send on a socket. Each returns the number of sent bytes."""

MUCH = 8_000_000 + 1000
"""More bytes than the buffers of a connection hold. ``sendmsg`` sends those after the first 1,000 as integers."""


def connections() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


def small_sends() -> tuple[socket.socket, socket.socket]:
    """Return a Unix pair with a small buffer, which a single send of compiled code (up to 64 KB) overfills."""
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
    return one, other


def count_of(told: str, size: int) -> str:
    """Return the outcome of a send; ``a part`` if only some of the bytes were sent."""
    return "a part" if told.isdigit() and 0 < int(told) < size else told


def send_to(
    peer: str, make: Callable[[], tuple[socket.socket, socket.socket]], name: str, timeout: float | None
) -> None:
    """Send to a peer that is slow, dies in the middle, or lets SO_SNDTIMEO pass."""
    one, other = make()
    one.settimeout(timeout)
    size = 60_000 if make is small_sends else MUCH
    if peer == "silent":
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 50_000))

    def send() -> list[str]:
        return [count_of(said(lambda: SENDS[name](one, bytes(size))), size) for _ in range(1 + (peer == "dying"))]

    case = Case(f"{name}, {make.__name__}, timeout {timeout}, {peer}", send)
    if peer == "slow" and timeout is None and name != "send, MSG_DONTWAIT":
        drain_all(other, size)
    elif peer == "dying":
        other.recv(1)
        wait_until_full(one.fileno())
        other.close()  # with unread data, so that TCP resets the connection
    case.join(PATIENCE)
    one.close()
    other.close()


def drain_all(sock: socket.socket, size: int) -> None:
    """Read slowly until ``size`` bytes have come, or until nothing more comes."""
    sock.settimeout(PATIENCE)
    with contextlib.suppress(OSError):
        while size > 0 and (data := sock.recv(500_000)):
            size -= len(data)
            time.sleep(0.001)


def drain(fd: int, counted: list[int]) -> None:
    """Read slowly until the end."""
    with contextlib.suppress(OSError):
        while data := os.read(fd, 50_000):
            counted.append(len(data))
            time.sleep(0.001)


def pipes() -> tuple[int, int]:
    return os.pipe()


def socketpairs() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


def terminals() -> tuple[int, int]:
    """Return master and slave of a raw pseudo-terminal: the slave is for a program that writes, the master is read."""
    master, slave = os.openpty()
    tty.setraw(slave)
    return master, slave


def masters() -> tuple[int, int]:
    master, slave = terminals()
    return slave, master


def write_to_slow(make: Callable[[], tuple[int, int]], name: str, size: int) -> None:
    reader, writer = make()
    counted: list[int] = []
    case = Case(f"{name}, {make.__name__}, slow", lambda: writers(writer)[name](bytes(size)))
    threading.Thread(target=drain, args=(reader, counted), daemon=True).start()
    case.join(PATIENCE)
    deadline = time.monotonic() + 5
    whole = size + 4 * (name == "Connection")  # its header
    while sum(counted) < whole and time.monotonic() < deadline:
        time.sleep(0.001)
    # Close only now: a terminal drops unread bytes. The reader has its own fd.
    os.close(writer)
    OUTCOMES[case.case] += f", {sum(counted)} came"


def write_to_dying(make: Callable[[], tuple[int, int]], name: str, size: int) -> None:
    """Write twice. The reader reads one part, and closes while the first write waits for room again."""
    reader, writer = make()
    write = writers(writer)[name]
    case = Case(f"{name}, {make.__name__}, dying", lambda: [said(lambda: write(bytes(size))) for _ in range(2)])
    left = 65_536
    while left:
        left -= len(os.read(reader, left))
    wait_until_full(writer)
    os.close(reader)
    case.join(PATIENCE)
    os.close(writer)
    if make is terminals:  # the room of a terminal depends on the sizes of the writes
        OUTCOMES[case.case] = re.sub(r"'\d{4,6}'", "'a part'", OUTCOMES[case.case])


def wait_until_full(fd: int) -> None:
    """Wait until a pipe takes no more."""
    import select

    deadline = time.monotonic() + 5
    while select.select([], [fd], [], 0)[1] and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(PAUSE)


def wait_until_empty(reader: int) -> None:
    """Wait until the reader has read everything."""
    import select

    deadline = time.monotonic() + 5
    while select.select([reader], [], [], 0)[0] and time.monotonic() < deadline:
        time.sleep(0.001)


DYING = [sys.executable, "-c", "import os; os.read(0, 1)"]


def popen_writes() -> None:
    def write(bufsize: int, program: list[str]) -> str:
        with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=bufsize) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            told = said(lambda: child.stdin.write(bytes(SIZE)))
            closed = said(child.stdin.close)
            return f"{told}, {closed}, {child.stdout.read()!r}"

    for bufsize in (0, -1):
        Case(f"Popen.stdin, bufsize {bufsize}, slow", lambda bufsize=bufsize: write(bufsize, ["wc", "-c"])).join(
            PATIENCE
        )
        case = Case(f"Popen.stdin, bufsize {bufsize}, dying", lambda bufsize=bufsize: write(bufsize, DYING))
        case.join(PATIENCE)
        # The number of bytes in the pipe before it broke depends on the timing.
        OUTCOMES[case.case] = "broke" if "BrokenPipe" in OUTCOMES[case.case] else OUTCOMES[case.case]
        if bufsize == 0:
            OUTCOMES[case.case] = "broke"


# ---- reading


def readers(fd: int) -> dict[str, Callable[[], Any]]:
    """Return the ways to read from an fd."""
    raw, buffered = os.fdopen(fd, "rb", 0, closefd=False), os.fdopen(fd, "rb", closefd=False)
    connection = multiprocessing.connection.Connection(os.dup(fd), writable=False)

    def into(call: Callable[[Any], Any]) -> Callable[[], Any]:
        def read() -> Any:
            buffer = bytearray(8)
            count = call(buffer)
            return count, bytes(buffer)

        return read

    return {
        "os.read": lambda: os.read(fd, 8),
        "os.readv": into(lambda buffer: os.readv(fd, [buffer])),
        "raw.read": lambda: raw.read(8),
        "raw.readinto": into(raw.readinto),
        "raw.readall": raw.readall,
        "buffered.read": lambda: buffered.read(8),
        "buffered.read1": lambda: buffered.read1(8),
        "buffered.peek": lambda: buffered.peek(1)[:8],
        "buffered.readline": buffered.readline,
        "text.readline": os.fdopen(fd, closefd=False).readline,
        "Connection.recv_bytes": connection.recv_bytes,
        "Connection.poll": lambda: connection.poll(20),
    }


SENT = struct.pack("!i", 3) + b"a\nb"
"""A message of a Connection, which is also two lines."""


def read_from(make: Callable[[], tuple[int, int]], name: str, peer: str) -> None:
    """Read from a peer: ``slow`` (two parts with a pause), ``dying`` (two bytes, then the end) or ``silent``."""
    reader, writer = make()
    read = readers(reader)[name]
    case = Case(f"{name}, {make.__name__}, {peer}", lambda: [said(read) for _ in range(3)])
    time.sleep(PAUSE)
    if peer == "slow":
        os.write(writer, SENT)
        if name != "Connection.poll":  # which reads nothing
            wait_until_empty(reader)
        time.sleep(PAUSE)
        if name != "os.read":
            os.write(writer, SENT)
    elif peer == "dying":
        os.write(writer, SENT[:2])
    time.sleep(PAUSE)
    os.close(writer)
    case.join(PATIENCE)


# ---- children

ENDS = {"slow": "import time; time.sleep(0.1); raise SystemExit(3)", "dying": "import os; os.kill(os.getpid(), 9)"}


def children(program: str) -> dict[str, Callable[[], Any]]:
    """Return the ways to wait for a child."""

    def spawned(then: Callable[[int], Any]) -> Callable[[], Any]:
        def call() -> Any:
            pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", program], os.environ)
            answer = then(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
            return answer

        return call

    def popen(program: str) -> Any:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )

    def with_pipes(then: Callable[[Any], Any], program: str = program) -> Callable[[], Any]:
        def call() -> Any:
            with popen(program) as child:
                try:
                    return then(child)
                finally:
                    child.kill()

        return call

    return {
        "os.waitpid": spawned(lambda pid: os.waitpid(pid, 0)[1]),
        "os.wait4": spawned(lambda pid: os.wait4(pid, 0)[1]),
        "os.waitid": spawned(lambda pid: tuple(os.waitid(os.P_PID, pid, os.WEXITED))[2:]),
        "os.waitid, WNOWAIT": spawned(lambda pid: tuple(os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT))[2:]),
        "Popen.wait": with_pipes(lambda child: child.wait()),
        "Popen.wait, in time": with_pipes(lambda child: child.wait(20)),
        "Popen.wait, late": with_pipes(lambda child: child.wait(0.001), "import time; time.sleep(60)"),
        "Popen.communicate": with_pipes(lambda child: (child.communicate(b"x" * 10), child.returncode)),
        "subprocess.call": lambda: subprocess.call([sys.executable, "-I", "-S", "-c", program]),
        "os.system": lambda: os.system(f"{sys.executable} -I -S -c '{program}'"),
    }


# ---- connecting


def full_listener() -> socket.socket:
    """Return a listener that accepts nothing, and whose backlog is full."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    kept.append(listener)
    for _ in range(4):
        waiting = socket.socket()
        waiting.setblocking(False)
        waiting.connect_ex(listener.getsockname())
        kept.append(waiting)
    return listener


def connects() -> dict[str, Callable[[], Any]]:
    # The socket is bound and does not listen: connects are refused, and no other socket gets the port.
    refused = socket.socket()
    refused.bind(("127.0.0.1", 0))
    kept.append(refused)
    nobody = refused.getsockname()
    full = full_listener()
    dying = socket.create_server(("127.0.0.1", 0))
    kept.append(dying)

    def leave() -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = dying.accept()
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                accepted.close()

    threading.Thread(target=leave, daemon=True).start()

    def with_limit(address: Any, name: str = "connect") -> Any:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 50_000))
            return getattr(sock, name)(address)

    def in_time(address: Any, name: str = "connect") -> Any:
        with socket.socket() as sock:
            sock.settimeout(0.05)
            return getattr(sock, name)(address)

    def then_recv(address: Any) -> Any:
        with socket.create_connection(address) as sock:
            return sock.recv(1)

    def unix(backlog_full: bool) -> Any:
        path = f"\0layers-{os.getpid()}-{backlog_full}"
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as one:
            if backlog_full:
                server.bind(path)
                server.listen(0)
                one.connect(path)
            with socket.socket(socket.AF_UNIX) as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 50_000))
                return other.connect(path)

    return {
        "connect, nobody": lambda: with_limit(nobody),
        "connect_ex, nobody": lambda: with_limit(nobody, "connect_ex"),
        "create_connection, nobody": lambda: socket.create_connection(nobody),
        "Client, nobody": lambda: multiprocessing.connection.Client(nobody),
        "connect, silent, SO_SNDTIMEO": lambda: with_limit(full.getsockname()),
        "connect_ex, silent, SO_SNDTIMEO": lambda: with_limit(full.getsockname(), "connect_ex"),
        "connect, silent, in time": lambda: in_time(full.getsockname()),
        "connect_ex, silent, in time": lambda: in_time(full.getsockname(), "connect_ex"),
        "create_connection, silent": lambda: socket.create_connection(full.getsockname(), 0.05),
        "recv, dying": lambda: then_recv(dying.getsockname()),
        "connect, Unix, nobody": lambda: unix(False),
        "connect, Unix, silent, SO_SNDTIMEO": lambda: unix(True),
    }


# ---- limits of the operating system

LIMIT = struct.pack("ll", 0, 50_000)
NONE = struct.pack("ll", 0, 0)
kept: list[Any] = []


def limited_pair(option: int, kind: int = socket.SOCK_STREAM, family: int = socket.AF_UNIX) -> socket.socket:
    one, other = socket.socketpair(family, kind)
    kept.append(other)
    one.setsockopt(socket.SOL_SOCKET, option, LIMIT)
    return one


def limits() -> dict[str, Callable[[], Any]]:
    received, sent = socket.SO_RCVTIMEO, socket.SO_SNDTIMEO

    def full(then: Callable[[Any], Any]) -> Any:
        one = limited_pair(sent)
        with contextlib.suppress(BlockingIOError):
            while True:
                one.send(bytes(100_000), socket.MSG_DONTWAIT)
        return then(one)

    def of_listener(accepted: bool) -> Any:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, received, LIMIT)
            if not accepted:
                return listener.accept()
            kept.append(socket.create_connection(listener.getsockname()))
            return listener.accept()[0].recv(1)

    def of_fd() -> Any:
        one = limited_pair(received)
        return socket.socket(fileno=one.detach()).recv(1)

    def set_late() -> Any:
        one, other = socket.socketpair()
        kept.append(other)
        other.send(b"x")
        first = one.recv(1)
        one.setsockopt(socket.SOL_SOCKET, received, LIMIT)
        return first, said(lambda: one.recv(1))

    def taken_back() -> Any:
        one, other = socket.socketpair()
        one.setsockopt(socket.SOL_SOCKET, received, LIMIT)
        first = said(lambda: one.recv(1))
        one.setsockopt(socket.SOL_SOCKET, received, NONE)
        threading.Timer(0.15, other.send, (b"x",)).start()
        return first, one.recv(1)

    def beside_settimeout() -> Any:
        one = limited_pair(received)
        one.settimeout(0.1)
        return one.recv(1)

    def datagram() -> Any:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("127.0.0.1", 0))
        sock.setsockopt(socket.SOL_SOCKET, received, LIMIT)
        return sock.recvfrom(9)

    def unix_datagrams() -> Any:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(f"\0layers-datagrams-{os.getpid()}")
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, sent, LIMIT)
            for _ in range(10_000):
                sock.sendto(b"x", server.getsockname())

    return {
        "recv": lambda: limited_pair(received).recv(1),
        "recv, in parts": lambda: limited_pair(received).recv(10, socket.MSG_WAITALL),
        "recv_into": lambda: limited_pair(received).recv_into(bytearray(1)),
        "recvmsg": lambda: limited_pair(received).recvmsg(1),
        "recvmsg_into": lambda: limited_pair(received).recvmsg_into([bytearray(1)]),
        "recvfrom": datagram,
        "recvfrom_into": lambda: limited_pair(received, socket.SOCK_DGRAM).recvfrom_into(bytearray(1)),
        "makefile": lambda: limited_pair(received).makefile("rb").readline(),
        "raw makefile": lambda: limited_pair(received).makefile("rb", 0).read(1),
        "os.read": lambda: os.read(limited_pair(received).detach(), 1),
        "raw file": lambda: os.fdopen(limited_pair(received).detach(), "rb", 0).read(1),
        "accept": lambda: of_listener(False),
        "recv of an accepted one": lambda: of_listener(True),
        "recv of an fd": of_fd,
        "recv of a dup": lambda: limited_pair(received).dup().recv(1),
        "recv, set late": set_late,
        "recv, taken back": taken_back,
        "recv, beside settimeout": beside_settimeout,
        "send": lambda: full(lambda one: one.send(b"x")),
        "sendall": lambda: full(lambda one: one.sendall(b"x")),
        "sendall, more": lambda: limited_pair(sent).sendall(bytes(10_000_000)),
        "sendmsg": lambda: full(lambda one: one.sendmsg([b"x"])),
        "sendto": unix_datagrams,
        "os.write": lambda: full(lambda one: os.write(one.detach(), b"x")),
    }


def in_turn(kind: str, cases: dict[str, Callable[[], Any]]) -> None:
    """Run cases concurrently."""
    for case in [Case(f"{kind}: {name}", call) for name, call in cases.items()]:
        case.join(PATIENCE)


def main() -> None:
    signal.signal(signal.SIGALRM, lambda *_: report())
    signal.alarm(50)
    probe, other = os.pipe()
    ways_to_write, ways_to_read = [*writers(other)], [*readers(probe)]
    for name in ways_to_write:
        for make in (pipes, socketpairs, terminals, masters):
            write_to_slow(make, name, SIZE)
        for make in (pipes, terminals):
            write_to_dying(make, name, SIZE)
    for name in SENDS:
        # An unnamed Unix pair has no address to send to.
        for made in (connections,) if name.startswith("sendto") else (connections, small_sends):
            for timeout in (None, 20.0, 0.0):
                send_to("slow", made, name, timeout)
            send_to("silent", made, name, None)
            # The error that a sendfile() raises after a part depends on the steps of the kernel.
            if name not in ("send, MSG_DONTWAIT", "os.sendfile"):
                send_to("dying", made, name, None)
    popen_writes()
    for name in ways_to_read:
        for make in (pipes, socketpairs, terminals):
            for peer in ("slow", "dying", "silent"):
                read_from(make, name, peer)
    for peer, program in ENDS.items():
        in_turn(f"child, {peer}", children(program))
    in_turn("connecting", connects())
    in_turn("limits", limits())
    report()


def report() -> None:
    print(json.dumps(OUTCOMES), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
