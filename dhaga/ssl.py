"""The standard ``ssl`` on dhagas: where a handshake, a read, a write or an ``unwrap`` would have to wait, it parks.

``SSLSocket`` is the standard's, on a ``dhaga.socket`` whose fd never blocks: OpenSSL says what it lacks, and the caller
parks until the fd has it, within the socket's timeout. ``SSLContext`` differs from the standard's by nothing but the
sockets that it makes; any other context makes the same ones with ``context.sslsocket_class = SSLSocket``. What needs no
network (``wrap_bio``, certificates, options) is the standard's own, and so is what is not defined here.

*Broken writes.* Data once offered to OpenSSL are encrypted and on their way, record by record; until that record is out
it takes whatever is offered next for the same (SSL_write(3), "the write operation must be repeated"), and would swallow
it. So one writes at a time, a record at a time, and the record of a write that was cancelled or timed out is kept
(``unfinished``): if the next write does not begin with it, it is finished first. What arrives is therefore a prefix of
each broken write, in order, and all of the others.
"""

from __future__ import annotations

import ssl as standard
from _socket import close
from collections.abc import Callable
from fcntl import ioctl
from termios import FIONREAD
from typing import Any, Self

from greenlet import getcurrent

from .kernel.channel import READ, closed_error
from .kernel.waiter import Waiter
from .kernel.waiting import this_waiter
from .locks import Lock
from .patience import NOWHERE, plain
from .socket import DEFAULT_TIMEOUT, create_connection, socket

__all__ = [name for name in dir(standard) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]

# The standard library's own, taken before anybody can patch them.
standard_default_context = standard.create_default_context
standard_unverified_context = standard._create_unverified_context
standard_DER_cert_to_PEM_cert = standard.DER_cert_to_PEM_cert
PROTOCOL_TLS_CLIENT = standard.PROTOCOL_TLS_CLIENT
CERT_NONE, CERT_REQUIRED = standard.CERT_NONE, standard.CERT_REQUIRED
SSL_ERROR_EOF, SSL_ERROR_WANT_WRITE = standard.SSL_ERROR_EOF, standard.SSL_ERROR_WANT_WRITE
SSLError, SSLWantReadError, SSLWantWriteError = standard.SSLError, standard.SSLWantReadError, standard.SSLWantWriteError

LACKS = (SSLWantReadError, SSLWantWriteError)
RECORD = 1 << 14  # bytes that one record holds at most (RFC 8446, 5.1)
NOTHING = bytes(4)  # no bytes, as FIONREAD tells it: a C int

# The standard's texts, which some programs look at.
READING, WRITING = "The read operation timed out", "The write operation timed out"
SHAKING = "The handshake operation timed out"


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class SSLSocket(standard.SSLSocket, socket):  # type: ignore[misc]
    """A TLS connection whose blocking methods park. Source: ``ssl.SSLSocket``; ``close`` wakes its waiters with EBADF.

    One dhaga may read while another writes; several writers take turns. With timeout 0 a ``send`` may send a part.
    ``close`` sends nothing, as the standard's: what a broken write has left is dropped, and the peer finds a ragged
    end; ``unwrap`` before it. A listening one shakes hands within ``accept``, while others wait for theirs: a server
    had better accept plainly, and wrap in the dhaga of each connection.
    """

    turn: Lock  # of those who write
    guard: Lock  # around each call into OpenSSL: it does not bear two at once in one connection
    orphans: list[int]  # the fd, if it was to be closed while OpenSSL, which knows its number, was at work
    crossed: Waiter | None  # who writes, while it waits to read, for a handshake: a reader may take the end of that
    sent: int  # how much of the present write OpenSSL has got rid of; negative: what of a broken one is to go first
    unfinished: bytes  # the record that OpenSSL has taken and not yet sent
    suppress_ragged_eofs: bool
    _sslobj: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        self = super().__new__(cls, *args, **options)
        self.turn, self.guard, self.orphans = Lock(), Lock(), []
        self.crossed, self.unfinished = None, b""
        return self

    @classmethod
    def _create(cls, *args: Any, do_handshake_on_connect: bool = True, **options: Any) -> Self:
        """Make one for ``wrap_socket``; it is closed if its handshake is cancelled, too, as from Python 3.13 on."""
        self: Any = super()._create(*args, do_handshake_on_connect=False, **options)  # type: ignore[misc]
        self.do_handshake_on_connect = do_handshake_on_connect
        if do_handshake_on_connect and self._connected:
            try:
                if self.patience == 0:
                    raise ValueError("do_handshake_on_connect should not be specified for non-blocking sockets")
                self.do_handshake()
            except BaseException:
                self.guard = Lock()  # a Ctrl-C may have struck the release of the old one; nobody else has the socket
                self.close()
                raise
        return self  # type: ignore[no-any-return]

    # ---- waiting

    def take_patience(self) -> None:
        super().take_patience()
        plain.setblocking(self, False)  # OpenSSL does not ask for MSG_DONTWAIT

    def reset_blocking(self) -> None:
        if self._sslobj is None:
            super().reset_blocking()

    def insist(self, late: str, deadline: float | None, operation: Callable[..., Any], *args: Any) -> Any:
        """Do an operation of OpenSSL, again whenever the fd has what it lacked; a read may have to write, too."""
        while True:
            try:
                with self.guard:
                    if self.channels.closed:
                        raise closed_error()
                    return operation(*args)
            except LACKS as lack:
                if self.patience == 0:
                    raise
                reads = isinstance(lack, SSLWantReadError)
            finally:
                if self.orphans or self.crossed:
                    self.look_after()
            deadline = self.wait(reads, late, deadline)

    def wait(self, reads: bool, late: str, deadline: float | None) -> float | None:
        """Park until the fd may be read, or written. Returns: the deadline. Raises: TimeoutError, saying ``late``."""
        me = this_waiter()
        channel = self.channel_of(me)
        wait: Any = channel.wait_readable if reads else channel.wait_writable
        if reads and late is WRITING:
            self.crossed = me
        if reads:
            channel.readable = False
        try:
            return self.bounded(wait, me, deadline)
        except TimeoutError:
            raise TimeoutError(late) from None
        finally:
            if self.crossed is me:
                self.crossed = None

    def look_after(self) -> None:
        """Do what was left to whoever comes out of OpenSSL: close the fd, wake a writer whose handshake may be done."""
        self.bury()
        writer = self.crossed
        if writer is not None and writer.parked and writer.taken_off():
            writer.unpark()

    # ---- handshakes

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands. Parks: until it is done (``read fd N``, ``write fd N``). Raises: SSLError, TimeoutError."""
        self._check_connected()  # type: ignore[attr-defined]
        patience = self.patience
        if patience == 0 and block:
            self.settimeout(None)
        try:
            self.insist(SHAKING, None, self._sslobj.do_handshake)
        finally:
            if self.patience != patience:
                self.settimeout(patience)

    def verify_client_post_handshake(self) -> None:
        """Ask the client for a certificate; the next read or write sends that. Parks: while others write.

        OpenSSL cannot answer in the middle of a record: a client with a write that is stuck gets an SSLError.
        """
        connection = self._sslobj
        if connection is None:
            super().verify_client_post_handshake()
        self.write_in_turn(connection, b"", connection.verify_client_post_handshake)

    # ---- reading

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive up to ``buflen`` bytes, of one record. Parks: while there are none (``read fd N``)."""
        if self._sslobj is None or flags:
            return super().recv(buflen, flags)
        return self.read(buflen)  # type: ignore[no-any-return]

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read up to ``len`` bytes, or into a buffer. Parks: while there are none (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().read(len, buffer)
        me: Any = getcurrent()
        channel: Any = self.channel
        if getattr(me, "scheduler", None) is not channel.scheduler:
            return self.read_patiently(connection, len, buffer)
        if not channel.readable and has_none(connection, len, buffer):  # wait(), insist(), written out: 10 % of an echo
            if me.pending:
                raise me.pending.pop(0)
            me.place = channel
            me.parked.append(channel.reading)
            channel.readers.append(me)
            if not channel.watched:
                channel.begin(me, READ)
            me.scheduler.park(me)
        try:
            with self.guard:
                if channel.closed:
                    raise closed_error()
                data = connection.read(len) if buffer is None else connection.read(len, buffer)
        except LACKS:
            return self.read_patiently(connection, len, buffer)
        except SSLError as error:
            if not self.is_end(error):
                raise
            return b"" if buffer is None else 0
        finally:
            if self.orphans or self.crossed:
                self.look_after()
        if channel.drains:
            look_ahead(channel, data)
        return data

    def read_patiently(self, connection: Any, len: int, buffer: Any) -> Any:
        channel = self.channels.get(getattr(getcurrent(), "scheduler", NOWHERE))
        deadline: float | None = None
        if channel and not channel.readable and self.patience != 0 and has_none(connection, len, buffer):
            deadline = self.wait(True, READING, None)
        try:
            data = self.insist(READING, deadline, connection.read, len, *(() if buffer is None else (buffer,)))
        except SSLError as error:
            if not self.is_end(error):
                raise
            return b"" if buffer is None else 0
        if channel and channel.drains:
            look_ahead(channel, data)
        return data

    def is_end(self, error: standard.SSLError) -> bool:
        """Tell whether an error is to be taken for the end: the peer has closed without notice."""
        return error.args[0] == SSL_ERROR_EOF and self.suppress_ragged_eofs

    # ---- writing

    def send(self, data: Any, flags: int = 0) -> int:
        """Send: all of it, but for timeout 0. Parks: while the buffer is full (``write fd N``), or others write."""
        if self._sslobj is None or flags:
            return super().send(data, flags)
        return self.write(data)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Send everything. Parks: as ``send``. Raises: TimeoutError, when some may have been sent."""
        if data.__class__ is bytes and self._sslobj is not None and not flags:
            sent = self.write(data)
            if sent == len(data):
                return
            data = data[sent:]
        super().sendall(data, flags)

    def write(self, data: Any) -> int:
        """Do what ``send`` does. Raises: TimeoutError, when some may have been sent. Returns: how many bytes."""
        connection = self._sslobj
        if connection is None:
            return super().write(data)
        if data.__class__ is not bytes or len(data) > RECORD:
            with memoryview(data) as view, view.cast("B") as whole:
                return self.write_in_turn(connection, whole)
        if not self.turn.acquire(False):
            return self.write_in_turn(connection, data)
        try:  # write_in_turn() and insist(), written out: 6 % of an echo
            try:
                if not self.unfinished:
                    with self.guard:
                        if self.channels.closed:
                            raise closed_error()
                        return connection.write(data)  # type: ignore[no-any-return]
            except LACKS:
                pass
            return self.write_now(connection, data, None)
        finally:
            self.turn.release()
            if self.orphans or self.crossed:
                self.look_after()

    def write_in_turn(self, connection: Any, data: bytes | memoryview, then: Callable[[], Any] | None = None) -> int:
        """Write as soon as no other does; ``then`` do another operation of OpenSSL before any other can write."""
        deadline = self.take_turn()
        try:
            sent = self.write_now(connection, data, deadline)
            if then is not None:
                self.insist(READING, deadline, then)
            return sent
        finally:
            self.turn.release()

    def take_turn(self) -> float | None:
        """Park while others write. Returns: the deadline of what comes next, if that is known by now."""
        if self.turn.acquire(False):
            return None
        if self.patience == 0:
            raise SSLWantWriteError(SSL_ERROR_WANT_WRITE, "The operation did not complete (write): others do")
        return self.bounded(self.wait_turn, this_waiter(), None)

    def wait_turn(self, me: object, left: float | None) -> None:
        if not self.turn.acquire(timeout=-1 if left is None else left):
            raise TimeoutError(WRITING)

    def write_now(self, connection: Any, data: bytes | memoryview, deadline: float | None) -> int:
        """Send what is left of a broken write, unless this one repeats it, then this one. Returns: how much of it."""
        broken = self.unfinished
        self.sent = -len(broken) if broken and data[: len(broken)] != broken else 0
        try:
            self.insist(WRITING, deadline, self.offer, connection, data)
        except LACKS:  # with timeout 0; the next write is to begin with what is left
            if self.sent <= 0:
                raise
        return self.sent

    def offer(self, connection: Any, data: Any) -> None:
        """Give OpenSSL one record after the other. What it does not get rid of, it has kept, and so do we."""
        while self.sent < len(data):
            begun = self.unfinished
            record = begun if self.sent < 0 else data[self.sent : self.sent + (len(begun) or RECORD)]
            try:
                connection.write(record)
            except LACKS:
                self.unfinished = bytes(record)
                raise
            self.unfinished = b""
            self.sent += len(record)

    # ---- ends

    def unwrap(self) -> Any:
        """End TLS in both directions, and go on in clear. Parks: until the peer has done so, too (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().unwrap()
        self.write_in_turn(connection, b"", connection.shutdown)
        self._sslobj = None
        self.reset_blocking()
        return self

    def _real_close(self) -> None:
        self.leave()
        self._sslobj = None
        fd = plain.detach(self)
        if fd >= 0:
            self.orphans.append(fd)
            self.bury()

    def bury(self) -> None:
        """Close the fd, unless somebody is at work on it, another OS thread or a callback: then they do, at the end."""
        while self.orphans and self.guard.acquire(False):
            try:
                close(self.orphans.pop())
            finally:
                self.guard.release()


def has_none(connection: Any, size: int, buffer: Any) -> bool:
    """Tell whether OpenSSL has no bytes at hand for a read that asks for some."""
    return not connection.pending() and (size if buffer is None else memoryview(buffer).nbytes) > 0


def look_ahead(channel: Any, data: Any) -> None:
    """Have the next read park without trying if nothing more has come: asking costs 1 µs, a try in vain 5."""
    if (len(data) if data.__class__ is bytes else data) < RECORD:
        try:
            channel.readable = ioctl(channel.fd, FIONREAD, NOTHING) != NOTHING
        except OSError:  # closed meanwhile
            pass


class SSLContext(standard.SSLContext):
    """What connections have in common: certificates, protocols, options. Source: ``ssl.SSLContext``.

    Its callbacks may park; a cancel that meets them there ends the handshake, by the ``SSLError`` of one that failed.
    """

    sslsocket_class = SSLSocket


def adopted(context: standard.SSLContext) -> SSLContext:
    """Have a context of the standard make our sockets."""
    context.__class__ = SSLContext
    return context  # type: ignore[return-value]


def create_default_context(*args: Any, **options: Any) -> SSLContext:
    """Make a context with the standard's secure settings, which verifies. Source: ``ssl.create_default_context``."""
    return adopted(standard_default_context(*args, **options))


def _create_unverified_context(*args: Any, **options: Any) -> SSLContext:
    return adopted(standard_unverified_context(*args, **options))


_create_default_https_context = create_default_context
_create_stdlib_context = _create_unverified_context


def get_server_certificate(
    addr: tuple[str, int],
    ssl_version: int = PROTOCOL_TLS_CLIENT,
    ca_certs: str | None = None,
    timeout: Any = DEFAULT_TIMEOUT,
) -> str:
    """Fetch a server's certificate, verified if there are ``ca_certs``. Parks: as ``connect`` and ``do_handshake``."""
    context = SSLContext(ssl_version)
    context.check_hostname = False
    context.verify_mode = CERT_NONE if ca_certs is None else CERT_REQUIRED
    if ca_certs is not None:
        context.load_verify_locations(ca_certs)
    with create_connection(addr, timeout) as sock, context.wrap_socket(sock, server_hostname=addr[0]) as connection:
        return standard_DER_cert_to_PEM_cert(connection.getpeercert(True) or b"")
