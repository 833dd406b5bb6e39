"""The standard ``ssl`` for dhagas: handshakes, reads, writes and ``unwrap`` park where they would block.

``SSLSocket`` is a subclass of the standard class and of ``dhaga.socket``, with a non-blocking fd. When OpenSSL reports
WANT_READ or WANT_WRITE, the caller parks until the fd is readable or writable, at most for the socket's timeout.
``SSLContext`` creates these sockets. Any other context creates them after ``context.sslsocket_class = SSLSocket``. All
names not defined here are the standard module's own.

*Broken writes.* OpenSSL accepts and encrypts data record by record. Until an accepted record is sent, OpenSSL expects
the next write to repeat the same data (SSL_write(3): "the write operation must be repeated"), and would discard other
data. So ``write_lock`` admits one writer at a time, and OpenSSL gets pieces of four records. ``pending_piece`` keeps
the piece of a cancelled or timed out write. The next write first sends this piece, unless the data of the next write
begins with the piece. So the peer receives all writes in order: a prefix of each broken write, and the whole of each
other write. The waits and the deferred close of the fd are in ``_iowait/tls_waits.py``.
"""

from __future__ import annotations

import ssl as standard
from collections.abc import Callable
from ssl import SSLEOFError, SSLError, SSLWantReadError, SSLWantWriteError
from types import FunctionType
from typing import Any, Self

from greenlet import getcurrent

from ._iowait.openssl_errors import forget_errors
from ._iowait.socket_base import NO_WATCHER, plain
from ._iowait.tls_waits import HANDSHAKE_TIMED_OUT, READ_TIMED_OUT, WANTS, WRITE_TIMED_OUT, TLSWaits
from ._kernel.faces.stdlib_face import fall_back_to
from ._kernel.fast.compiled import compiled
from ._kernel.platform.system import system
from ._kernel.run.fd_watch import closed_error
from ._kernel.run.turn_budget import end_turn, yield_if_due
from ._kernel.wait.current import this_waiter
from ._kernel.wait.waiter import TIMED_OUT
from ._sync.lock import Lock
from .socket import DEFAULT_TIMEOUT, create_connection, socket

__all__ = [name for name in dir(standard) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]

# The standard library's functions, taken before a patch can replace them.
_standard_default_context = standard.create_default_context
_standard_unverified_context = standard._create_unverified_context
_standard_DER_cert_to_PEM_cert = standard.DER_cert_to_PEM_cert
PROTOCOL_TLS_CLIENT = standard.PROTOCOL_TLS_CLIENT
CERT_NONE, CERT_REQUIRED = standard.CERT_NONE, standard.CERT_REQUIRED
SSL_ERROR_EOF, SSL_ERROR_WANT_WRITE = standard.SSL_ERROR_EOF, standard.SSL_ERROR_WANT_WRITE

RECORD = 1 << 14  # maximum number of bytes in one record (RFC 8446, 5.1)
PIECE = 4 * RECORD  # bytes passed to OpenSSL at once; single records would take a fifth more CPU time for bulk data

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class SSLSocket(TLSWaits, standard.SSLSocket, socket):  # type: ignore[misc]
    """A TLS connection whose blocking methods park. Source: ``ssl.SSLSocket``; ``close`` wakes its waiters with EBADF.

    One dhaga may read while another one writes; writers queue in FIFO order. With timeout 0, ``send`` may send only a
    part. Like the standard method, ``close`` sends no closing alert, so the peer sees an unexpected EOF. ``close`` also
    drops the rest of a broken write. To avoid this, call ``unwrap`` before ``close``. ``accept`` of a listening
    SSLSocket performs the handshake while other clients wait. So a server should accept plain connections and wrap each
    in its own dhaga.
    """

    write_lock: Lock  # held by the current writer
    sent: int  # the sent bytes of the current write; below 0 if bytes of a broken write must be sent first
    pending_piece: bytes  # data that OpenSSL has accepted but not sent
    suppress_ragged_eofs: bool
    _sslobj: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        self = super().__new__(cls, *args, **options)
        self.write_lock, self.openssl_lock, self.fds_to_close = Lock(), Lock(), []
        self.reading_writer, self.pending_piece = None, b""
        return self

    @classmethod
    def _create(cls, *args: Any, do_handshake_on_connect: bool = True, **options: Any) -> Self:
        """Create the socket of ``wrap_socket``. After a failed handshake, close the socket, as Python 3.13 does."""
        self: Any = super()._create(*args, do_handshake_on_connect=False, **options)  # type: ignore[misc]
        self.do_handshake_on_connect = do_handshake_on_connect
        if do_handshake_on_connect and self._connected:
            try:
                if self.call_timeout_ == 0:
                    raise ValueError("do_handshake_on_connect should not be specified for non-blocking sockets")
                self.do_handshake()
            except BaseException:
                # Replace the lock, because a Ctrl-C may have interrupted its release. No other reference to the socket
                # exists.
                self.openssl_lock = Lock()
                self.close()
                raise
        return self  # type: ignore[no-any-return]

    # ---- blocking modes

    def sync_timeout(self) -> None:
        super().sync_timeout()
        plain.setblocking(self, False)  # OpenSSL's own calls pass no MSG_DONTWAIT

    def reset_blocking(self) -> None:
        if self._sslobj is None:
            super().reset_blocking()

    # ---- handshakes

    def do_handshake(self, block: bool = False) -> None:
        """Perform the handshake. Parks: ``read fd N``, ``write fd N``. Raises: SSLError, TimeoutError."""
        self._check_connected()  # type: ignore[attr-defined]
        connection = self._sslobj
        if connection is None:
            return super().do_handshake(block)
        timeout = self.call_timeout_
        if timeout == 0 and block:
            self.settimeout(None)
        try:
            self.retry_when_ready(HANDSHAKE_TIMED_OUT, None, connection.do_handshake)
        finally:
            if self.call_timeout_ != timeout:
                self.settimeout(timeout)

    def verify_client_post_handshake(self) -> None:
        """Request a certificate from the client; the next read or write sends the request. Parks: while others write.

        A client whose write is blocked gets an SSLError, because OpenSSL cannot answer in the middle of a record.
        """
        connection = self._sslobj
        if connection is None:
            super().verify_client_post_handshake()
        self.write_locked(connection, b"", connection.verify_client_post_handshake)

    # ---- reading

    @compiled  # in C only without flags, in the cases that C handles for read()
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive up to ``buflen`` bytes of one record. Parks: until a record arrives (``read fd N``)."""
        if self._sslobj is None or flags:
            return super().recv(buflen, flags)
        return self.read(buflen)  # type: ignore[no-any-return]

    @compiled  # in C only without a timeout, if openssl_lock is free; after an OSError, read_again() continues
    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read up to ``len`` bytes, or into a buffer. Parks: until a record arrives (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().read(len, buffer)
        me: Any = getcurrent()
        watcher: Any = self.watcher_
        if getattr(me, "scheduler", None) is not watcher.scheduler:
            return self.read_slow_path(connection, len, buffer)
        # The bodies of wait() and retry_when_ready() are repeated here: calls would take 10 % of an echo's time.
        if not watcher.readable and nothing_pending(connection, len, buffer):
            watcher.wait_readable(this_waiter())
        elif me.scheduler.clock() >= me.scheduler.turn_ends_at:
            end_turn(me)
        try:
            with self.openssl_lock:
                if watcher.closed:
                    raise closed_error()
                data = connection.read(len) if buffer is None else connection.read(len, buffer)
        except OSError as error:
            return self.read_again(connection, len, buffer, error)
        finally:
            if self.fds_to_close or self.reading_writer:
                self.finish_deferred()
        if watcher.short_read_means_empty:
            note_pending_bytes(watcher, data)
        return data

    def read_again(self, connection: Any, len: int, buffer: Any, error: OSError) -> Any:
        """Continue a read after an error: OpenSSL needs more data, a system call failed, or the stream has ended."""
        if isinstance(error, WANTS):
            return self.read_slow_path(connection, len, buffer)
        if not isinstance(error, SSLError):
            forget_errors()
            return self.read_slow_path(connection, len, buffer, error)
        self.raise_unless_ended(error)
        return b"" if buffer is None else 0

    def read_slow_path(self, connection: Any, len: int, buffer: Any, failure: OSError | None = None) -> Any:
        """Read with a timeout, from another scheduler than the cached watcher's, or after a first try has failed."""
        watcher = self.watchers_.get(getattr(getcurrent(), "scheduler", NO_WATCHER))
        deadline: float | None = None
        if watcher and not watcher.readable and self.call_timeout_ != 0 and nothing_pending(connection, len, buffer):
            deadline = self.wait(True, READ_TIMED_OUT, None)
        elif self.call_timeout_ != 0:
            yield_if_due()
        try:
            into = () if buffer is None else (buffer,)
            data = self.retry_when_ready(READ_TIMED_OUT, deadline, connection.read, len, *into, failure=failure)
        except (SSLError, BrokenPipeError) as error:
            self.raise_unless_ended(error)
            return b"" if buffer is None else 0
        if watcher and watcher.short_read_means_empty:
            note_pending_bytes(watcher, data)
        return data

    def raise_unless_ended(self, error: OSError) -> None:
        """Raise an error of a read, unless the error means that the peer has closed the connection without an alert."""
        if isinstance(error, BrokenPipeError):
            # OpenSSL 3.6 answers such an end of file with an alert, which cannot be sent if the peer has gone.
            error = SSLEOFError(SSL_ERROR_EOF, "EOF occurred in violation of protocol").with_traceback(
                error.__traceback__
            )
        if error.args[0] != SSL_ERROR_EOF or not self.suppress_ragged_eofs:
            raise error

    # ---- writing

    def send(self, data: Any, flags: int = 0) -> int:
        """Send all data, or with timeout 0 a part. Parks: while the buffer is full (``write fd N``) or others write."""
        if self._sslobj is None or flags:
            return super().send(data, flags)
        return self.write(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send all data. Parks: like ``send``. Raises: TimeoutError, after which a part may have been sent."""
        if data.__class__ is bytes and self._sslobj is not None and not flags:
            sent = self.write(data)
            if sent == len(data):
                return
            data = data[sent:]
        super().sendall(data, flags)

    @compiled  # in C only for up to 64 KB of bytes, with free locks and no pending piece; write_again() handles OSError
    def write(self, data: Any) -> int:
        """Write like ``send``. Raises: TimeoutError, after which a part may have been sent. Returns: the number of
        bytes.
        """
        connection = self._sslobj
        if connection is None:
            return super().write(data)
        self.count_send(0)
        if data.__class__ is not bytes or len(data) > PIECE:
            with memoryview(data) as view, view.cast("B") as whole:
                return self.write_locked(connection, whole)
        if not self.write_lock.acquire(False):
            return self.write_locked(connection, data)
        try:  # repeats write_locked() and retry_when_ready(): calls would take 6 % of an echo's time
            if self.pending_piece:
                return self.write_now(connection, data, None)
            try:
                with self.openssl_lock:
                    if self.watchers_.closed:
                        raise closed_error()
                    return connection.write(data)  # type: ignore[no-any-return]
            except OSError as error:
                return self.write_again(connection, data, error)
        finally:
            self.write_lock.release()
            if self.fds_to_close or self.reading_writer:
                self.finish_deferred()

    def write_again(self, connection: Any, data: bytes, error: OSError) -> int:
        """Continue a write after OpenSSL has raised an error. The caller holds the write lock."""
        try:
            if not isinstance(error, SSLError):
                forget_errors()
                return self.write_now(connection, data, None, error)
            if isinstance(error, WANTS):
                self.pending_piece = data
            if not self.pending_piece or self.call_timeout_ == 0:
                raise error
            self.finish_deferred()
            deadline = self.wait(isinstance(error, SSLWantReadError), WRITE_TIMED_OUT, None)
            return self.write_now(connection, data, deadline)
        finally:
            del error  # breaks the reference cycle between its traceback and this frame

    def write_locked(self, connection: Any, data: bytes | memoryview, then: Callable[[], Any] | None = None) -> int:
        """Acquire the write lock, write, and release it. ``then``: another OpenSSL operation, before the release."""
        deadline = self.acquire_write_lock()
        try:
            sent = self.write_now(connection, data, deadline)
            if then is not None:
                self.retry_when_ready(READ_TIMED_OUT, deadline, then)
            return sent
        finally:
            self.write_lock.release()

    def acquire_write_lock(self) -> float | None:
        """Acquire the write lock. Parks: while other dhagas write. Returns: the deadline if the caller has parked."""
        if self.write_lock.acquire(False):
            return None
        if self.call_timeout_ == 0:
            raise SSLWantWriteError(
                SSL_ERROR_WANT_WRITE, "The operation did not complete (write): another dhaga writes"
            )
        return self.park_within_timeout(self.wait_write_lock, this_waiter(), None, WRITE_TIMED_OUT)

    def wait_write_lock(self, me: object, left: float | None) -> object:
        """Acquire the write lock. Returns: TIMED_OUT after ``left`` seconds."""
        return self.write_lock.acquire(timeout=-1 if left is None else left) or TIMED_OUT

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file with ``send``. The kernel's TLS, which the standard uses from Python 3.15 on, would block."""
        if self._sslobj is None:
            return super().sendfile(file, offset, count)
        return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]

    def write_now(
        self, connection: Any, data: bytes | memoryview, deadline: float | None, failure: OSError | None = None
    ) -> int:
        """Send a broken write's pending piece, unless ``data`` repeats it, then send ``data``. Returns: the number of
        bytes of ``data`` that were sent.
        """
        broken = self.pending_piece
        self.sent = -len(broken) if broken and data[: len(broken)] != broken else 0
        try:
            self.retry_when_ready(WRITE_TIMED_OUT, deadline, self.write_pieces, connection, data, failure=failure)
        except WANTS:  # with timeout 0, the program's next write must begin with the rest
            if self.sent <= 0:
                raise
        return self.sent

    def write_pieces(self, connection: Any, data: Any) -> None:
        """Pass the data to OpenSSL in pieces. Keep a copy of a piece that OpenSSL has accepted but not sent."""
        while self.sent < len(data):
            pending = self.pending_piece
            piece: Any = pending if self.sent < 0 else data[self.sent : self.sent + (len(pending) or PIECE)]
            try:
                connection.write(piece)
                self.pending_piece = b""
                self.sent += len(piece)
            except WANTS:
                self.pending_piece = bytes(piece)
                raise
            finally:
                if piece.__class__ is memoryview:  # a stored error keeps this frame alive, but must not keep the buffer
                    piece.release()

    # ---- ends

    def unwrap(self) -> Any:
        """End TLS in both directions; return the plain socket. Parks: until the peer also ends TLS (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().unwrap()
        self.write_locked(connection, b"", connection.shutdown)
        self._sslobj = None
        self.reset_blocking()
        return self

    def _real_close(self) -> None:
        self.stop_watching()
        self._sslobj = None
        fd = plain.detach(self)
        if fd >= 0:
            self.fds_to_close.append(fd)
            self.close_fds()


def nothing_pending(connection: Any, size: int, buffer: Any) -> bool:
    """Return whether a read must wait for data: it requests a byte or more, and OpenSSL has no decrypted bytes."""
    return not connection.pending() and (size if buffer is None else memoryview(buffer).nbytes) > 0


def note_pending_bytes(watcher: Any, data: Any) -> None:
    """Make the next read park at once if the fd is empty. FIONREAD takes 1 µs, and a failing read would take 5 µs."""
    if (len(data) if data.__class__ is bytes else data) < RECORD:
        try:
            watcher.readable = system.has_input(watcher.fd)
        except OSError:  # the fd has been closed
            pass


class SSLContext(standard.SSLContext):
    """The settings of connections: certificates, protocols, options. Source: ``ssl.SSLContext``.

    A context's callbacks may park. A cancel of such a park makes the handshake fail with ``SSLError``.
    """

    sslsocket_class: type[SSLSocket] = SSLSocket


def with_own_sockets(context: standard.SSLContext) -> SSLContext:
    """Change the class of a standard context, so that it creates our sockets, and return the context."""
    context.__class__ = SSLContext
    return context  # type: ignore[return-value]


def create_default_context(*args: Any, **options: Any) -> SSLContext:
    """Return a verifying context with the standard secure settings. Source: ``ssl.create_default_context``."""
    return with_own_sockets(_standard_default_context(*args, **options))


def _create_unverified_context(*args: Any, **options: Any) -> SSLContext:
    return with_own_sockets(_standard_unverified_context(*args, **options))


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context


def get_server_certificate(
    addr: tuple[str, int],
    ssl_version: int = PROTOCOL_TLS_CLIENT,
    ca_certs: str | None = None,
    timeout: Any = DEFAULT_TIMEOUT,
) -> str:
    """Return a server's certificate, verified if ``ca_certs`` is given. Parks: like ``connect``, ``do_handshake``."""
    context = SSLContext(ssl_version)
    context.check_hostname = False
    context.verify_mode = CERT_NONE if ca_certs is None else CERT_REQUIRED
    if ca_certs is not None:
        context.load_verify_locations(ca_certs)
    with create_connection(addr, timeout) as sock, context.wrap_socket(sock, server_hostname=addr[0]) as connection:
        return _standard_DER_cert_to_PEM_cert(connection.getpeercert(True) or b"")


if _standard_wrap_socket := getattr(standard, "wrap_socket", None):  # until Python 3.11
    _made_here = {**vars(standard), "SSLContext": SSLContext}
    wrap_socket: Callable[..., SSLSocket] = FunctionType(
        _standard_wrap_socket.__code__, _made_here, "wrap_socket", _standard_wrap_socket.__defaults__
    )
