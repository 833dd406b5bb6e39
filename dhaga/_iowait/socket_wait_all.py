"""``MSG_WAITALL`` of a socket without a timeout, and the receiving methods that return more than bytes.

Calls never wait in C, so the kernel returns at once what has arrived. These methods receive the rest.
"""

from __future__ import annotations

import socket as standard
from collections.abc import Iterable
from typing import Any

from .._kernel import outside
from .._kernel.run.call_outs import calls_out
from .socket_base import DONTWAIT, OOB, type_of
from .socket_sendfile import SendfileSocket

WAITALL, PEEK, CTRUNC = int(standard.MSG_WAITALL), int(standard.MSG_PEEK), int(standard.MSG_CTRUNC)


class WaitAllSocket(SendfileSocket):
    """A socket that receives all that a program asks for with MSG_WAITALL."""

    __slots__ = ()

    def waits_for_all(self, flags: int) -> bool:
        """Return whether MSG_WAITALL applies: only to a stream without a timeout, and not with MSG_PEEK or MSG_OOB."""
        return self.call_timeout_ is None and not flags & (PEEK | OOB) and type_of(self) == standard.SOCK_STREAM

    def recv_all_(self, buffer: Any, flags: int) -> int:
        """Receive until the buffer is full or the stream ends. Returns: the number of bytes."""
        got = 0
        with memoryview(buffer) as view:
            while got < len(view):
                with view[got:] as rest:  # released, because a stored error would keep this frame and the view alive
                    more = self.read_when_ready(flags, outside.sockets.recv_into, rest, 0, flags | DONTWAIT)
                if not more:
                    break
                got += more
        return got

    @calls_out
    def recvfrom(self, bufsize: int, flags: int = 0, /) -> tuple[bytes, Any]:
        """Receive data and the sender's address. Parks: like ``recv``."""
        data, address = self.read_when_ready(flags, outside.sockets.recvfrom, bufsize, flags | DONTWAIT)
        if flags & WAITALL and 0 < len(data) < bufsize and self.waits_for_all(flags):
            rest = bytearray(bufsize - len(data))
            data += rest[: self.recv_all_(rest, flags)]
        return data, address

    @calls_out
    def recvfrom_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> tuple[int, Any]:
        """Receive data into a buffer, and the sender's address. Parks: like ``recv``."""
        got, address = self.read_when_ready(flags, outside.sockets.recvfrom_into, buffer, nbytes, flags | DONTWAIT)
        if flags & WAITALL and got and self.waits_for_all(flags):
            with memoryview(buffer) as view, view.cast("B") as whole, whole[got : nbytes or None] as rest:
                got += self.recv_all_(rest, flags)
        return got, address

    @calls_out
    def recvmsg(self, bufsize: int, ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive data and ancillary data. Parks: like ``recv``."""
        call = outside.sockets.recvmsg
        data, *others = self.read_when_ready(flags, call, bufsize, ancbufsize, flags | DONTWAIT)
        if flags & WAITALL and data and self.waits_for_all(flags):
            while len(data) < bufsize and not brought_fds(*others):
                left = bufsize - len(data)
                more, *others = self.read_when_ready(flags, call, left, ancbufsize, flags | DONTWAIT)
                if not more:
                    break
                data += more
        return (data, *others)

    @calls_out
    def recvmsg_into(self, buffers: Iterable[Any], ancbufsize: int = 0, flags: int = 0, /) -> Any:
        """Receive data into buffers, and ancillary data. Parks: like ``recv``."""
        call, buffers = outside.sockets.recvmsg_into, list(buffers)
        got, *others = self.read_when_ready(flags, call, buffers, ancbufsize, flags | DONTWAIT)
        if flags & WAITALL and got and self.waits_for_all(flags):
            while not brought_fds(*others) and (rest := views_after(got, buffers)):
                try:
                    more, *others = self.read_when_ready(flags, call, rest, ancbufsize, flags | DONTWAIT)
                finally:
                    for view in rest:  # a stored error would keep this frame and the views alive
                        view.release()
                if not more:
                    break
                got += more
        return (got, *others)


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
