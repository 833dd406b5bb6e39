"""The waits of a TLS socket, and the deferred close of its fd while an OpenSSL call is running.

``openssl_lock`` is held during each OpenSSL call, because OpenSSL allows one call at a time per connection. The lock
stays held during a park only if a callback of OpenSSL parks. A close during a call puts the fd into ``fds_to_close``,
and the caller closes the fd when its call returns. ``reading_writer`` is a writer that waits to *read* (a handshake). A
reader may consume the data that this writer waits for, so every caller wakes the writer when its call returns.
"""

from __future__ import annotations

from _socket import close
from collections.abc import Callable
from ssl import SSLError, SSLWantReadError, SSLWantWriteError
from typing import Any

from .._kernel.run.fd_watch import closed_error
from .._kernel.wait.current import this_waiter
from .._kernel.wait.waiter import Waiter
from .._sync.lock import Lock
from .fd_ops import has_error
from .openssl_errors import forget_errors
from .socket_base import TimeoutSocket

WANTS = (SSLWantReadError, SSLWantWriteError)

# The messages of the standard library. Some programs check for these texts.
READ_TIMED_OUT, WRITE_TIMED_OUT = "The read operation timed out", "The write operation timed out"
HANDSHAKE_TIMED_OUT = "The handshake operation timed out"


class TLSWaits(TimeoutSocket):
    """Base class with the waits of ``SSLSocket``, which sets the attributes below."""

    openssl_lock: Lock  # held during each OpenSSL call
    fds_to_close: list[int]  # the fd, if the socket was closed during an OpenSSL call
    reading_writer: Waiter | None  # a writer that waits to read; a reader may complete the writer's handshake

    def retry_when_ready(
        self,
        message: str,
        deadline: float | None,
        operation: Callable[..., Any],
        *args: Any,
        failure: OSError | None = None,
    ) -> Any:
        """Return the result of an OpenSSL operation. If OpenSSL must first read or write, park, then retry.

        A read may have to write (renegotiation, key updates), and a write may have to read. ``failure``: the error of a
        first try. The error may belong to another connection (``openssl_errors.py``), so it is raised only if this
        connection is broken or a second try fails.
        """
        if failure is not None and self.is_broken():
            raise failure
        while True:
            try:
                with self.openssl_lock:
                    if self.watchers_.closed:
                        raise closed_error()
                    return operation(*args)
            except WANTS as want:
                if self.call_timeout_ == 0:
                    raise
                reads, failure = isinstance(want, SSLWantReadError), None
            except OSError as error:
                if not isinstance(error, SSLError):
                    forget_errors()
                    if failure is None and not self.is_broken():
                        failure = error
                        continue
                if failure is not None:
                    raise failure from None
                raise
            finally:
                if self.fds_to_close or self.reading_writer:
                    self.finish_deferred()
            deadline = self.wait(reads, message, deadline)

    def is_broken(self) -> bool:
        """Return whether the connection has ended in both directions, so that an error of a system call belongs to this
        connection.

        A second try would spoil the errors of later calls: in a second read of a broken connection, OpenSSL 3.6 begins
        an alert, and later refuses every write with BAD_LENGTH.
        """
        return not self.watchers_.closed and has_error(self.watchers_.fd)

    def wait(self, reads: bool, message: str, deadline: float | None) -> float | None:
        """Park until the fd is readable (``reads``) or writable. Returns: the deadline. Raises: TimeoutError with
        ``message``.
        """
        me = this_waiter()
        watcher = self.fd_watcher(me)
        wait: Any = watcher.wait_readable if reads else watcher.wait_writable
        if reads and message is WRITE_TIMED_OUT:
            self.reading_writer = me
        if reads:
            watcher.readable = False
        try:
            return self.park_within_timeout(wait, me, deadline, message)
        except BlockingIOError:  # SO_RCVTIMEO or SO_SNDTIMEO; the standard ssl also tries again
            return deadline
        finally:
            if self.reading_writer is me:
                self.reading_writer = None

    def finish_deferred(self) -> None:
        """Close the fd if its close was deferred, and wake ``reading_writer``. From: the end of each OpenSSL call."""
        self.close_fds()
        writer = self.reading_writer
        if writer is not None and writer.parked and writer.undo_park():
            writer.wake_parked()

    def close_fds(self) -> None:
        """Close the fd, unless an OpenSSL call is running. In that case, the caller of OpenSSL closes the fd later."""
        while self.fds_to_close and self.openssl_lock.acquire(False):
            try:
                close(self.fds_to_close.pop())
            finally:
                self.openssl_lock.release()
