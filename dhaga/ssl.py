"""The standard ``ssl`` on dhagas: a handshake, a read, a write or ``unwrap`` parks where it would block.

``SSLSocket`` is the standard's, over a ``dhaga.socket`` whose fd never blocks: OpenSSL reports WANT_READ or WANT_WRITE,
and the caller parks until the fd is ready for that, within the socket's timeout. ``SSLContext`` makes these sockets;
any other context does so with ``context.sslsocket_class = SSLSocket``. Names that need no network (``wrap_bio``,
certificates, options), and all names not defined here, are the standard module's own.

*Broken writes.* OpenSSL encrypts data as it accepts them, record by record. Until an accepted record is sent, OpenSSL
regards the next data as a repetition of it (SSL_write(3): "the write operation must be repeated"), and would swallow
them. So ``write_lock`` admits one writer, OpenSSL gets pieces of four records, and the piece of a cancelled or timed
out write is kept in ``pending_piece``. A next write that does not begin with that piece finishes it first. So the peer
receives, in order, a prefix of each broken write and all of the other writes. How a call waits, and when a closed fd is
closed: ``_iowait/tls_waits.py``.
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

RECORD = 1 << 14  # bytes that one record holds at most (RFC 8446, 5.1)
PIECE = 4 * RECORD  # bytes that OpenSSL gets at once: record by record, bulk data take a fifth more CPU time

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class SSLSocket(TLSWaits, standard.SSLSocket, socket):  # type: ignore[misc]
    """A TLS connection whose blocking methods park. Source: ``ssl.SSLSocket``; ``close`` wakes its waiters with EBADF.

    One dhaga may read while another writes; writers queue in FIFO order. With timeout 0 ``send`` may send a part. As in
    the standard, ``close`` sends no closing alert: the rest of a broken write is dropped, and the peer sees a ragged
    end; call ``unwrap`` before. A listening SSLSocket shakes hands within ``accept``, while other clients wait: a
    server should accept plain connections, and wrap each in its own dhaga.
    """

    write_lock: Lock  # held by the one writer
    sent: int  # bytes of the present write that are sent; negative: bytes of a broken write to send first
    pending_piece: bytes  # what OpenSSL has accepted and not yet sent
    suppress_ragged_eofs: bool
    _sslobj: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        self = super().__new__(cls, *args, **options)
        self.write_lock, self.openssl_lock, self.fds_to_close = Lock(), Lock(), []
        self.reading_writer, self.pending_piece = None, b""
        return self

    @classmethod
    def _create(cls, *args: Any, do_handshake_on_connect: bool = True, **options: Any) -> Self:
        """Make the socket of ``wrap_socket``. A handshake that fails or is cancelled closes it, as from Python 3.13."""
        self: Any = super()._create(*args, do_handshake_on_connect=False, **options)  # type: ignore[misc]
        self.do_handshake_on_connect = do_handshake_on_connect
        if do_handshake_on_connect and self._connected:
            try:
                if self.call_timeout_ == 0:
                    raise ValueError("do_handshake_on_connect should not be specified for non-blocking sockets")
                self.do_handshake()
            except BaseException:
                # A Ctrl-C may have interrupted the release of the old lock. No other reference to the socket exists.
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
        """Perform the handshake. Parks: until done (``read fd N``, ``write fd N``). Raises: SSLError, TimeoutError."""
        self._check_connected()  # type: ignore[attr-defined]
        timeout = self.call_timeout_
        if timeout == 0 and block:
            self.settimeout(None)
        try:
            self.retry_when_ready(HANDSHAKE_TIMED_OUT, None, self._sslobj.do_handshake)
        finally:
            if self.call_timeout_ != timeout:
                self.settimeout(timeout)

    def verify_client_post_handshake(self) -> None:
        """Request a certificate from the client; the next read or write sends the request. Parks: while others write.

        OpenSSL cannot answer in the middle of a record: if a client's write is stuck, the client gets an SSLError.
        """
        connection = self._sslobj
        if connection is None:
            super().verify_client_post_handshake()
        self.write_locked(connection, b"", connection.verify_client_post_handshake)

    # ---- reading

    @compiled  # C: as read(), no flags
    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive up to ``buflen`` bytes of one record. Parks: while there are none (``read fd N``)."""
        if self._sslobj is None or flags:
            return super().recv(buflen, flags)
        return self.read(buflen)  # type: ignore[no-any-return]

    @compiled  # C: no timeout, a free openssl_lock; read_again() goes on after an OSError
    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read up to ``len`` bytes, or into a buffer. Parks: while there are none (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().read(len, buffer)
        me: Any = getcurrent()
        watcher: Any = self.watcher_
        if getattr(me, "scheduler", None) is not watcher.scheduler:
            return self.read_slow_path(connection, len, buffer)
        # wait() and retry_when_ready(), written out: 10 % of an echo.
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
        """Read after one refusal of OpenSSL: it wants more, or the stream has ended."""
        if isinstance(error, WANTS):
            return self.read_slow_path(connection, len, buffer)
        if not isinstance(error, SSLError):
            forget_errors()
            return self.read_slow_path(connection, len, buffer, error)
        self.raise_unless_ended(error)
        return b"" if buffer is None else 0

    def read_slow_path(self, connection: Any, len: int, buffer: Any, failure: OSError | None = None) -> Any:
        """Read with a timeout, from another scheduler than the cached watcher's, or after OpenSSL wanted more."""
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
        """Raise an error of a read, unless it counts as end of file: the peer closed without an alert."""
        if isinstance(error, BrokenPipeError):
            # OpenSSL 3.6 answers such an end with an alert of its own, which may not reach the peer any more.
            error = SSLEOFError(SSL_ERROR_EOF, "EOF occurred in violation of protocol").with_traceback(
                error.__traceback__
            )
        if error.args[0] != SSL_ERROR_EOF or not self.suppress_ragged_eofs:
            raise error

    # ---- writing

    def send(self, data: Any, flags: int = 0) -> int:
        """Send all data; with timeout 0 a part. Parks: while the buffer is full (``write fd N``), or others write."""
        if self._sslobj is None or flags:
            return super().send(data, flags)
        return self.write(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send everything. Parks: as ``send``. Raises: TimeoutError, after which a part may have been sent."""
        if data.__class__ is bytes and self._sslobj is not None and not flags:
            sent = self.write(data)
            if sent == len(data):
                return
            data = data[sent:]
        super().sendall(data, flags)

    @compiled  # C: bytes, up to 64 KB, free locks, no pending piece; write_again() goes on after an OSError
    def write(self, data: Any) -> int:
        """As ``send``. Raises: TimeoutError, after which a part may have been sent. Returns: the number of bytes."""
        connection = self._sslobj
        if connection is None:
            return super().write(data)
        self.count_send(0)
        if data.__class__ is not bytes or len(data) > PIECE:
            with memoryview(data) as view, view.cast("B") as whole:
                return self.write_locked(connection, whole)
        if not self.write_lock.acquire(False):
            return self.write_locked(connection, data)
        try:  # write_locked() and retry_when_ready(), written out: 6 % of an echo
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
        """Go on with a write that OpenSSL refused once, under the write lock: OpenSSL keeps the data meanwhile."""
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
            del error  # its traceback holds this frame: that would be a cycle

    def write_locked(self, connection: Any, data: bytes | memoryview, then: Callable[[], Any] | None = None) -> int:
        """Write under the write lock; ``then``, another operation of OpenSSL, runs before any other writer."""
        deadline = self.acquire_write_lock()
        try:
            sent = self.write_now(connection, data, deadline)
            if then is not None:
                self.retry_when_ready(READ_TIMED_OUT, deadline, then)
            return sent
        finally:
            self.write_lock.release()

    def acquire_write_lock(self) -> float | None:
        """Park while others write. Returns: the deadline of the rest of the call, if it is known by now."""
        if self.write_lock.acquire(False):
            return None
        if self.call_timeout_ == 0:
            raise SSLWantWriteError(SSL_ERROR_WANT_WRITE, "The operation did not complete (write): others do")
        return self.park_within_timeout(self.wait_write_lock, this_waiter(), None, WRITE_TIMED_OUT)

    def wait_write_lock(self, me: object, left: float | None) -> object:
        """Acquire the write lock. Returns: TIMED_OUT after ``left`` seconds."""
        return self.write_lock.acquire(timeout=-1 if left is None else left) or TIMED_OUT

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file, by ``send``: the kernel's TLS, which the standard uses from Python 3.15 on, would block."""
        if self._sslobj is None:
            return super().sendfile(file, offset, count)
        return self._sendfile_use_send(file, offset, count)  # type: ignore[attr-defined, no-any-return]

    def write_now(
        self, connection: Any, data: bytes | memoryview, deadline: float | None, failure: OSError | None = None
    ) -> int:
        """Send the rest of a broken write, unless this write repeats it; then send this write. Returns: how much of
        this one.
        """
        broken = self.pending_piece
        self.sent = -len(broken) if broken and data[: len(broken)] != broken else 0
        try:
            self.retry_when_ready(WRITE_TIMED_OUT, deadline, self.write_pieces, connection, data, failure=failure)
        except WANTS:  # timeout 0: the next write is to begin with the rest
            if self.sent <= 0:
                raise
        return self.sent

    def write_pieces(self, connection: Any, data: Any) -> None:
        """Pass one piece after the other to OpenSSL; keep a copy of each that it has accepted and not sent."""
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
                if piece.__class__ is memoryview:  # a kept error keeps this frame, which must not keep the buffer
                    piece.release()

    # ---- ends

    def unwrap(self) -> Any:
        """End TLS in both directions, and continue in clear. Parks: until the peer has done so too (``read fd N``)."""
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
    """Return whether OpenSSL holds no decrypted bytes, and the read wants some."""
    return not connection.pending() and (size if buffer is None else memoryview(buffer).nbytes) > 0


def note_pending_bytes(watcher: Any, data: Any) -> None:
    """Make the next read park at once if the fd is empty: FIONREAD costs 1 µs, a failing read 5 µs."""
    if (len(data) if data.__class__ is bytes else data) < RECORD:
        try:
            watcher.readable = system.has_input(watcher.fd)
        except OSError:  # the fd was closed meanwhile
            pass


class SSLContext(standard.SSLContext):
    """Settings shared by connections: certificates, protocols, options. Source: ``ssl.SSLContext``.

    Its callbacks may park; a cancel that reaches them fails the handshake with ``SSLError``.
    """

    sslsocket_class: type[SSLSocket] = SSLSocket


def with_own_sockets(context: standard.SSLContext) -> SSLContext:
    """Change a standard context so that it makes our sockets."""
    context.__class__ = SSLContext
    return context  # type: ignore[return-value]


def create_default_context(*args: Any, **options: Any) -> SSLContext:
    """Make a verifying context with the standard's secure settings. Source: ``ssl.create_default_context``."""
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
    """Fetch a server's certificate, verified if ``ca_certs`` are given. Parks: as ``connect`` and ``do_handshake``."""
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
