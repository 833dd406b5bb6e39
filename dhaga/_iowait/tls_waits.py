"""The waits of a TLS socket until OpenSSL can go on, and the close of its fd after the call that is under way.

*Locks.* ``openssl_lock`` is held for each call into OpenSSL, which allows one at a time per connection; only a callback
that parks keeps it across a park. A close meanwhile leaves the fd in ``fds_to_close``: the caller closes it when its
call returns. ``reading_writer`` is a writer that waits to *read* (a handshake). A reader may consume the data that this
writer waits for, so every caller wakes the writer when its call returns.
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
from .openssl_errors import forget_errors
from .socket_base import TimeoutSocket

WANTS = (SSLWantReadError, SSLWantWriteError)

# The standard's messages, which some programs compare.
READ_TIMED_OUT, WRITE_TIMED_OUT = "The read operation timed out", "The write operation timed out"
HANDSHAKE_TIMED_OUT = "The handshake operation timed out"


class TLSWaits(TimeoutSocket):
    """The waits of ``SSLSocket``, which makes the locks."""

    openssl_lock: Lock  # held for each call into OpenSSL: one at a time per connection
    fds_to_close: list[int]  # the fd, if it was closed while OpenSSL was at work with its number
    reading_writer: Waiter | None  # a writer that waits to read: a reader may complete its handshake

    def retry_when_ready(
        self,
        message: str,
        deadline: float | None,
        operation: Callable[..., Any],
        *args: Any,
        failure: OSError | None = None,
    ) -> Any:
        """Return the result of an OpenSSL operation, which is retried whenever the fd is ready in the direction that it
        wants.

        A read may also have to write (renegotiation, key updates), and a write to read. ``failure``: the error of a
        first try; it is raised only if the connection fails again, because it may be another connection's
        (``openssl_errors.py``).
        """
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
                    if failure is None:
                        failure = error
                        continue
                if failure is not None:
                    raise failure from None
                raise
            finally:
                if self.fds_to_close or self.reading_writer:
                    self.finish_deferred()
            deadline = self.wait(reads, message, deadline)

    def wait(self, reads: bool, message: str, deadline: float | None) -> float | None:
        """Park until the fd is readable or writable. Returns: the deadline. Raises: TimeoutError with ``message``."""
        me = this_waiter()
        watcher = self.fd_watcher(me)
        wait: Any = watcher.wait_readable if reads else watcher.wait_writable
        if reads and message is WRITE_TIMED_OUT:
            self.reading_writer = me
        if reads:
            watcher.readable = False
        try:
            return self.park_within_timeout(wait, me, deadline, message)
        except BlockingIOError:  # SO_RCVTIMEO or SO_SNDTIMEO, after which the standard ssl tries again
            return deadline
        finally:
            if self.reading_writer is me:
                self.reading_writer = None

    def finish_deferred(self) -> None:
        """Close the fd if that was deferred, and wake the writer that waits to read: after each call into OpenSSL."""
        self.close_fds()
        writer = self.reading_writer
        if writer is not None and writer.parked and writer.undo_park():
            writer.wake_parked()

    def close_fds(self) -> None:
        """Close the fd, unless a call into OpenSSL is under way: then its caller does so afterwards."""
        while self.fds_to_close and self.openssl_lock.acquire(False):
            try:
                close(self.fds_to_close.pop())
            finally:
                self.openssl_lock.release()
