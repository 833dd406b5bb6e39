"""``socket.sendfile``: blocks of a file, sent by the kernel without a copy through Python."""

from __future__ import annotations

import os
import socket as standard
from typing import Any

from .socket_base import TimeoutSocket, plain

os_sendfile: Any = getattr(os, "sendfile", None)
SENDFILE_BLOCK = 1 << 22


class SendfileSocket(TimeoutSocket):
    """A socket that sends files by sendfile(2). Source: ``socket.socket.sendfile``."""

    __slots__ = ()

    def _sendfile_use_sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Override of the standard's first choice for ``sendfile``. Parks: while the send buffer is full."""
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
        """Send blocks by sendfile(2). The fd is non-blocking meanwhile, because that call has no flag for it."""
        sent = 0
        plain.setblocking(self, False)
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
            self.reset_blocking()
            if sent and hasattr(file, "seek"):
                file.seek(offset + sent)
        return sent


def send_file_once(sock: TimeoutSocket, fileno: int, offset: int, count: int) -> int:
    """Send one block by sendfile(2). Raises: BlockingIOError if the send buffer is full."""
    assert os_sendfile is not None
    return os_sendfile(sock.fileno(), fileno, offset, count)  # type: ignore[no-any-return]
