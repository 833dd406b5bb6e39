"""Operations of sockets that may have to wait, each as a case with the action that ends the wait."""

from __future__ import annotations

import dataclasses
import errno
import io
import itertools
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from dhaga import socket

LOOPBACK = "127.0.0.1"
LONG = 30.0  # seconds that pass on a virtual clock only
number = itertools.count().__next__


@dataclasses.dataclass
class Wait:
    """An operation on ``sock`` that must wait until ``release``, and its result."""

    sock: socket.socket
    operate: Callable[[], Any]
    release: Callable[[], object]
    outcome: Any


def abstract() -> str:
    """Return an unused address for a Unix socket, in the abstract namespace (without a file)."""
    return f"\0dhaga-{os.getpid()}-{number()}"


def pair(stack: ExitStack, kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair(type=kind)
    return stack.enter_context(near), stack.enter_context(far)


def listener(stack: ExitStack, **options: Any) -> socket.socket:
    return stack.enter_context(socket.create_server((LOOPBACK, 0), **options))


def tcp(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return two ends of a TCP connection."""
    near, far = connected(stack, listener(stack))
    return near, far


def connected(stack: ExitStack, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    near = stack.enter_context(socket.socket())
    begin_to_connect(near, server.getsockname())
    far = stack.enter_context(server.accept()[0])
    near.settimeout(None)
    return near, far


def udp(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return two UDP sockets, each connected to the other."""
    ends = [stack.enter_context(socket.socket(type=socket.SOCK_DGRAM)) for _ in range(2)]
    for end in ends:
        end.bind((LOOPBACK, 0))
    for end, other in (ends, reversed(ends)):
        end.connect(other.getsockname())
    return ends[0], ends[1]


def begin_to_connect(sock: socket.socket, address: Any) -> int:
    """Connect without waiting. Returns: an errno."""
    sock.setblocking(False)
    return sock.connect_ex(address)


def fill(sock: socket.socket, send: Callable[[bytes], object] | None = None) -> None:
    """Send until nothing fits any more."""
    timeout = sock.gettimeout()
    sock.setblocking(False)
    for size in (4096, 1):
        while True:
            try:
                (send or sock.send)(bytes(size))
            except BlockingIOError:
                break
    sock.settimeout(timeout)


def drain(sock: socket.socket) -> int:
    """Receive all available bytes. Returns: their number."""
    timeout = sock.gettimeout()
    sock.setblocking(False)
    count = 0
    while True:
        try:
            count += len(sock.recv(65536))
        except BlockingIOError:
            sock.settimeout(timeout)
            return count


# ---- operations that wait to read


def recv(stack: ExitStack) -> Wait:
    near, far = pair(stack)
    return Wait(near, lambda: near.recv(100), lambda: far.sendall(b"hello"), b"hello")


def recv_tcp(stack: ExitStack) -> Wait:
    near, far = tcp(stack)
    return Wait(near, lambda: near.recv(100), lambda: far.sendall(b"hello"), b"hello")


def recv_to_the_end(stack: ExitStack) -> Wait:
    near, far = tcp(stack)
    return Wait(near, lambda: near.recv(100), lambda: far.shutdown(socket.SHUT_WR), b"")


def recv_into(stack: ExitStack) -> Wait:
    near, far = pair(stack)
    buffer = bytearray(5)
    return Wait(near, lambda: (near.recv_into(buffer), buffer), lambda: far.sendall(b"hello"), (5, b"hello"))


def recvfrom(stack: ExitStack) -> Wait:
    near, far = udp(stack)
    return Wait(near, lambda: near.recvfrom(100), lambda: far.send(b"hello"), (b"hello", far.getsockname()))


def recvfrom_into(stack: ExitStack) -> Wait:
    near, far = udp(stack)
    buffer = bytearray(100)
    release = lambda: far.sendto(b"hello", near.getsockname())  # noqa: E731
    return Wait(near, lambda: near.recvfrom_into(buffer, 3), release, (3, far.getsockname()))


def recvmsg(stack: ExitStack) -> Wait:
    near, far = pair(stack)
    return Wait(near, lambda: near.recvmsg(100)[0], lambda: far.sendmsg([b"hel", b"lo"]), b"hello")


def recvmsg_into(stack: ExitStack) -> Wait:
    near, far = pair(stack)
    buffers = [bytearray(2), bytearray(3)]
    operate = lambda: (near.recvmsg_into(iter(buffers))[0], *buffers)  # noqa: E731
    return Wait(near, operate, lambda: far.sendall(b"hello"), (5, b"he", b"llo"))


def readline(stack: ExitStack) -> Wait:
    near, far = pair(stack)
    file = stack.enter_context(near.makefile("rb"))
    return Wait(near, file.readline, lambda: far.sendall(b"hello\n"), b"hello\n")


def accept(stack: ExitStack) -> Wait:
    server = listener(stack)
    client = stack.enter_context(socket.socket())

    def operate() -> Any:
        conn, address = server.accept()
        with conn:
            return type(conn) is socket.socket and address == conn.getpeername() == client.getsockname()

    return Wait(server, operate, lambda: begin_to_connect(client, server.getsockname()), True)


# ---- operations that wait to write


def full(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    near, far = pair(stack)
    fill(near)
    return near, far


def send(stack: ExitStack) -> Wait:
    near, far = full(stack)
    return Wait(near, lambda: near.send(b"hello"), lambda: drain(far), 5)


def sendall(stack: ExitStack) -> Wait:
    near, far = full(stack)
    return Wait(near, lambda: near.sendall(bytes(50_000)), lambda: drain(far), None)


def sendmsg(stack: ExitStack) -> Wait:
    near, far = full(stack)
    return Wait(near, lambda: near.sendmsg(iter([b"hel", b"lo"])), lambda: drain(far), 5)


def sendfile(stack: ExitStack) -> Wait:
    near, far = full(stack)
    file: Any = stack.enter_context(tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
    file.write(bytes(1000))
    return Wait(near, lambda: (near.sendfile(file, 100), file.tell()), lambda: drain(far), (900, 1000))


def sendfile_of_no_file(stack: ExitStack) -> Wait:
    near, far = full(stack)
    return Wait(near, lambda: near.sendfile(io.BytesIO(b"hello")), lambda: drain(far), 5)


def sendto(stack: ExitStack) -> Wait:
    """Return a send of a datagram to a Unix socket whose queue is full. No event reports room in the queue."""
    server, client = (stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) for _ in range(2))
    address = abstract()
    server.bind(address)
    fill(client, lambda data: client.sendto(data[:1], address))
    return Wait(client, lambda: client.sendto(b"hello", address), lambda: drain(server), 5)


# ---- operations that wait to connect


def full_backlog(stack: ExitStack) -> tuple[socket.socket, str]:
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    server.bind(abstract())
    server.listen(0)
    address = server.getsockname().decode()
    while begin_to_connect(stack.enter_context(socket.socket(socket.AF_UNIX)), address) != errno.EAGAIN:
        pass
    return server, address


def accept_all(server: socket.socket) -> None:
    server.setblocking(False)
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return


def connect(stack: ExitStack) -> Wait:
    server, address = full_backlog(stack)
    sock = stack.enter_context(socket.socket(socket.AF_UNIX))
    return Wait(sock, lambda: sock.connect(address), lambda: accept_all(server), None)


def connect_ex(stack: ExitStack) -> Wait:
    server, address = full_backlog(stack)
    sock = stack.enter_context(socket.socket(socket.AF_UNIX))
    return Wait(sock, lambda: sock.connect_ex(address), lambda: accept_all(server), 0)


def connect_tcp(stack: ExitStack) -> Wait:
    """Return a connect that is not answered because the backlog is full. TCP tries it again after a second."""
    server = listener(stack, backlog=0)
    for _ in range(3):
        begin_to_connect(stack.enter_context(socket.socket()), server.getsockname())
    sock = stack.enter_context(socket.socket())
    return Wait(sock, lambda: sock.connect(server.getsockname()), lambda: accept_all(server), None)


READING = recv, recv_tcp, recv_to_the_end, recv_into, recvfrom, recvfrom_into, recvmsg, recvmsg_into, readline, accept
WRITING = send, sendall, sendmsg, sendfile, sendfile_of_no_file
TRYING = sendto, connect, connect_ex
EVENTFUL = READING + WRITING
WAITS = EVENTFUL + TRYING


def eventually(condition: Callable[[], Any], seconds: float = 10) -> None:
    """Wait, in a plain thread, until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.001)
