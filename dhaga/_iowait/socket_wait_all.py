"""``MSG_WAITALL`` of a socket without a timeout, and the receiving methods that return more than bytes.

Calls never wait in C, so the kernel returns at once what has arrived. These methods receive the rest. As in the kernel,
an error or a limit after the first bytes ends the call with these bytes, and the next call raises the error.
With ``MSG_PEEK``, only TCP waits for all: other streams return the bytes that have arrived.
"""

from __future__ import annotations

import socket as standard
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .._kernel import originals, outside
from .._kernel.platform.system import system
from .._kernel.run.call_outs import calls_out
from .fd_ops import has_error, has_event
from .socket_base import DONTWAIT, NOW, OOB, is_tcp, type_of
from .socket_sendfile import SendfileSocket

WAITALL, PEEK, CTRUNC = int(standard.MSG_WAITALL), int(standard.MSG_PEEK), int(standard.MSG_CTRUNC)
PEER_HAS_ENDED = getattr(originals.select_module, "POLLRDHUP", 0)
"""The event of poll(2) for the end of a stream; 0 on systems without this event, where POLLHUP reports the end."""


class WaitAllSocket(SendfileSocket):
    """A socket that receives all that a program asks for with MSG_WAITALL."""

    __slots__ = ()

    def waits_for_all(self, flags: int) -> bool:
        """Return whether MSG_WAITALL applies: only to a stream without a timeout, and not with MSG_PEEK or MSG_OOB."""
        return self.call_timeout_ is None and not flags & (PEEK | OOB) and type_of(self) == standard.SOCK_STREAM

    def recv_all_(self, buffer: Any, flags: int, got: int = 0) -> int:
        """Receive until the buffer is full or the stream ends.

        ``got``: the number of bytes that the buffer has already. Returns: the number of bytes that it has then.
        """
        with memoryview(buffer) as view:
            while got < len(view):
                with view[got:] as rest:  # released, because a stored error would keep this frame and the view alive
                    receive = self.receive_more_ if got else self.read_when_ready
                    more = receive(flags, outside.sockets.recv_into, rest, 0, flags | DONTWAIT)
                if not more:
                    break
                got += more
        return got

    def receive_more_(self, flags: int, call: Callable[..., Any], *args: Any) -> Any:
        """Make a further receiving call of a MSG_WAITALL receive, after its first bytes.

        Returns: the call's result; None if the receive ends with the bytes so far. Source: recv(2) with MSG_WAITALL. An
        error stays pending for the program's next call, because the socket reports an error only once.
        Parks: like ``recv``.
        """

        def receive(sock: Any, *args: Any) -> Any:
            fd = self.watchers_.fd
            return None if has_error(fd) and not system.has_input(fd) else call(sock, *args)

        try:
            return self.read_when_ready(flags, receive, *args)
        except BlockingIOError:  # MSG_DONTWAIT or SO_RCVTIMEO
            return None

    def peeks_all_(self, size: int, flags: int) -> bool:
        """Return whether MSG_WAITALL applies together with MSG_PEEK: on Linux, to TCP without a timeout."""
        waits = self.call_timeout_ is None and not flags & (OOB | NOW) and size.__class__ is int and size > 0
        return waits and sys.platform == "linux" and is_tcp(self)

    def wait_to_peek_(self, size: int, flags: int) -> None:
        """Wait until ``size`` bytes can be peeked, if the flags include MSG_PEEK. Parks: ``read fd N``, then ``sleep``.

        After the first byte, this method polls with growing pauses. Only SO_RCVLOWAT would delay the fd's event until
        ``size`` bytes have arrived, but it would affect other readers.
        """
        if not (flags & PEEK and self.peeks_all_(size, flags)):
            return

        def peek(sock: Any) -> None:
            over = has_event(self.watchers_.fd, PEER_HAS_ENDED)  # first, because bytes may precede the end
            if len(outside.sockets.recv(sock, size, PEEK | DONTWAIT)) < size and not over:
                raise BlockingIOError

        self.read_when_ready(flags, outside.sockets.recv, 1, PEEK | DONTWAIT)
        try:
            self.retry_with_backoff(flags, peek, limit=standard.SO_RCVTIMEO)
        except BlockingIOError:  # SO_RCVTIMEO
            pass

    @calls_out
    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Receive data and the sender's address. Parks: like ``recv``."""
        if flags & WAITALL:
            self.wait_to_peek_(bufsize, flags)
        data, address = self.read_when_ready(flags, outside.sockets.recvfrom, bufsize, flags | DONTWAIT)
        if flags & WAITALL and 0 < len(data) < bufsize and self.waits_for_all(flags):
            buffer = bytearray(data).ljust(bufsize)
            data = bytes(buffer[: self.recv_all_(buffer, flags, len(data))])
        return data, address

    @calls_out
    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """Receive data into a buffer, and the sender's address. Parks: like ``recv``."""
        if flags & WAITALL:
            self.wait_to_peek_(nbytes or room_in([buffer]), flags)
        got, address = self.read_when_ready(flags, outside.sockets.recvfrom_into, buffer, nbytes, flags | DONTWAIT)
        if flags & WAITALL and got and self.waits_for_all(flags):
            with memoryview(buffer) as view, view.cast("B") as whole, whole[: nbytes or None] as wanted:
                got = self.recv_all_(wanted, flags, got)
        return got, address

    @calls_out
    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive data and ancillary data. Parks: like ``recv``."""
        if flags & WAITALL:
            self.wait_to_peek_(bufsize, flags)
        call = outside.sockets.recvmsg
        data, *others = self.read_when_ready(flags, call, bufsize, ancbufsize, flags | DONTWAIT)
        if flags & WAITALL and data and self.waits_for_all(flags):
            while len(data) < bufsize and not brought_fds(*others):
                left = bufsize - len(data)
                more = self.receive_more_(flags, call, left, ancbufsize, flags | DONTWAIT)
                if more is None or not more[0]:
                    break
                data += more[0]
                others = more[1:]
        return (data, *others)

    @calls_out
    def recvmsg_into(self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive data into buffers, and ancillary data. Parks: like ``recv``."""
        call, buffers = outside.sockets.recvmsg_into, list(buffers)
        if flags & WAITALL:
            self.wait_to_peek_(room_in(buffers), flags)
        got, *others = self.read_when_ready(flags, call, buffers, ancbufsize, flags | DONTWAIT)
        if flags & WAITALL and got and self.waits_for_all(flags):
            while not brought_fds(*others) and (rest := views_after(got, buffers)):
                try:
                    more = self.receive_more_(flags, call, rest, ancbufsize, flags | DONTWAIT)
                finally:
                    for view in rest:  # a stored error would keep this frame and the views alive
                        view.release()
                if more is None or not more[0]:
                    break
                got += more[0]
                others = more[1:]
        return (got, *others)


def room_in(buffers: list[Any]) -> int:
    """Return the number of bytes that the buffers can hold; 0 for wrong arguments, which the call itself refuses."""
    try:
        return sum(memoryview(buffer).nbytes for buffer in buffers)
    except TypeError:
        return 0


def brought_fds(ancillary: list[tuple[int, int, bytes]], flags: int, address: object) -> bool:
    """Return whether a received message has brought fds, which end a call with MSG_WAITALL early."""
    # The flag means that there was no room for some of the fds.
    return bool(flags & CTRUNC) or any(
        level == standard.SOL_SOCKET and kind == standard.SCM_RIGHTS for level, kind, _ in ancillary
    )


def views_after(got: int, buffers: list[Any]) -> list[memoryview]:
    """Return views of the unfilled rest of the buffers, after their first ``got`` bytes."""
    views = []
    for buffer in buffers:
        with memoryview(buffer) as view, view.cast("B") as whole:
            if got < len(whole):
                views.append(whole[got:])
            got = max(0, got - len(whole))
    return views
