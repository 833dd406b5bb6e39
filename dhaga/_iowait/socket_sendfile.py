"""``socket.sendfile``: the kernel sends blocks of a file, without copying the data through Python."""

from __future__ import annotations

import os
import socket as standard
from typing import Any

from .._kernel import originals
from .socket_base import TimeoutSocket, plain

os_sendfile: Any = getattr(os, "sendfile", None)
SENDFILE_BLOCK = 1 << 22

mode_guard = originals.allocate_lock()
"""Held while a socket's mode is set, because several OS threads may send files on one socket."""


class SendfileSocket(TimeoutSocket):
    """A socket that sends files with sendfile(2). Source: ``socket.socket.sendfile``."""

    __slots__ = ("sendfiles_",)

    sendfiles_: int
    """The number of callers that send files now. Unset: no caller has sent a file."""

    def _sendfile_use_sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file with sendfile(2), for the standard ``sendfile``. Parks: while the send buffer is full."""
        self._check_sendfile_params(file, offset, count)  # type: ignore[attr-defined]
        give_up = standard._GiveupOnSendfile  # type: ignore[attr-defined]
        try:
            fileno = file.fileno()
            size = os.fstat(fileno).st_size
        except (AttributeError, OSError) as error:
            raise give_up(error) from error
        if os_sendfile is None:
            raise give_up("this platform has none")
        if not size:
            return 0
        if self.call_timeout_ == 0:
            raise ValueError("non-blocking sockets are not supported")
        return self.send_by_kernel(file, fileno, offset, count)

    def send_by_kernel(self, file: Any, fileno: int, offset: int, count: int | None) -> int:
        """Send blocks with sendfile(2). Parks: while the send buffer is full."""
        sent = 0
        self.begin_sendfile_()
        try:
            while count is None or sent < count:
                self.check_turn(0)
                block = SENDFILE_BLOCK if count is None else min(count - sent, SENDFILE_BLOCK)
                now = self.write_when_ready(0, send_file_once, fileno, offset + sent, block)
                if not now:
                    break
                sent += now
        except OSError as error:
            if sent or isinstance(error, TimeoutError) or self.watchers_.closed:
                raise
            raise standard._GiveupOnSendfile(error) from error  # type: ignore[attr-defined]
        finally:
            self.end_sendfile_()
            if sent and hasattr(file, "seek"):
                file.seek(offset + sent)
        return sent

    def begin_sendfile_(self) -> None:
        """Set the fd to non-blocking mode, because sendfile(2) has no flag for that. Raises: OSError."""
        with mode_guard:
            plain.setblocking(self, False)
            self.sendfiles_ = getattr(self, "sendfiles_", 0) + 1

    def end_sendfile_(self) -> None:
        """Restore the mode of the fd, unless another caller still sends a file."""
        with mode_guard:
            self.sendfiles_ -= 1
            if not self.sendfiles_:
                self.reset_blocking()


def send_file_once(sock: TimeoutSocket, fileno: int, offset: int, count: int) -> int:
    """Send one block with sendfile(2). Raises: BlockingIOError if the send buffer is full."""
    assert os_sendfile is not None
    return os_sendfile(sock.fileno(), fileno, offset, count)  # type: ignore[no-any-return]
