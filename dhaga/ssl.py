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
from collections.abc import Callable
from typing import Any, Self

from .kernel.channel import closed_error
from .kernel.waiting import this_waiter
from .locks import Lock
from .patience import plain
from .socket import DEFAULT_TIMEOUT, create_connection, socket

__all__ = [name for name in dir(standard) if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]

# The standard library's own, taken before anybody can patch them.
standard_default_context = standard.create_default_context
standard_unverified_context = standard._create_unverified_context
standard_DER_cert_to_PEM_cert = standard.DER_cert_to_PEM_cert
PROTOCOL_TLS_CLIENT = standard.PROTOCOL_TLS_CLIENT
CERT_NONE, CERT_REQUIRED = standard.CERT_NONE, standard.CERT_REQUIRED
SSLError, SSLWantReadError, SSLWantWriteError = (
    standard.SSLError,
    standard.SSLWantReadError,
    standard.SSLWantWriteError,
)

RECORD = 1 << 14
"""Bytes that one TLS record holds at most (RFC 8446, 5.1)."""


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class SSLSocket(standard.SSLSocket, socket):  # type: ignore[misc]
    """A TLS connection whose blocking methods park. Source: ``ssl.SSLSocket``; ``close`` wakes its waiters with EBADF.

    One dhaga may read while another writes; several writers take turns. With timeout 0 a ``send`` may send a part.
    """

    turn: Lock  # of those who write
    guard: Lock  # around each call into OpenSSL: it does not bear two OS threads in one connection
    unfinished: bytes  # the record that OpenSSL has taken and not yet sent
    suppress_ragged_eofs: bool
    _sslobj: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        self = super().__new__(cls, *args, **options)
        self.turn, self.guard, self.unfinished = Lock(), Lock(), b""
        return self

    # ---- waiting

    def take_patience(self) -> None:
        super().take_patience()
        plain.setblocking(self, False)  # OpenSSL does not ask for MSG_DONTWAIT

    def reset_blocking(self) -> None:
        if self._sslobj is None:
            super().reset_blocking()

    def insist(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Do an operation of OpenSSL, again whenever the fd has what it lacked; a read may have to write, too."""
        deadline: float | None = None
        while True:
            try:
                with self.guard:
                    return operation(*args)
            except (SSLWantReadError, SSLWantWriteError) as lack:
                if self.patience == 0:
                    raise
                reads = isinstance(lack, SSLWantReadError)
            except SSLError:
                if self.channels.closed:
                    raise closed_error() from None
                raise
            me = this_waiter()
            channel = self.channel_of(me)
            deadline = self.bounded(channel.wait_readable if reads else channel.wait_writable, me, deadline)

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands. Parks: until it is done (``read fd N``, ``write fd N``). Raises: SSLError, TimeoutError."""
        self._check_connected()  # type: ignore[attr-defined]
        patience = self.patience
        if patience == 0 and block:
            self.settimeout(None)
        try:
            self.insist(self._sslobj.do_handshake)
        finally:
            if self.patience != patience:
                self.settimeout(patience)

    # ---- reading

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """Read up to ``len`` bytes, or into a buffer. Parks: while there are none (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().read(len, buffer)
        try:
            return self.insist(connection.read, len, *(() if buffer is None else (buffer,)))
        except SSLError as error:
            if error.args[0] != standard.SSL_ERROR_EOF or not self.suppress_ragged_eofs:
                raise
        return b"" if buffer is None else 0

    # ---- writing

    def send(self, data: Any, flags: int = 0) -> int:
        """Send: all of it, but for timeout 0. Parks: while the buffer is full (``write fd N``), or others write."""
        if self._sslobj is None or flags:
            return super().send(data, flags)
        return self.write(data)

    def write(self, data: Any) -> int:
        """Do what ``send`` does. Raises: TimeoutError, when some may have been sent. Returns: how many bytes."""
        connection = self._sslobj
        if connection is None:
            return super().write(data)
        with memoryview(data) as view, view.cast("B") as whole:
            self.take_turn()
            try:
                return self.write_records(connection, whole)
            finally:
                self.turn.release()

    def take_turn(self) -> None:
        if self.turn.acquire(self.patience != 0, self.patience or -1):
            return
        if self.patience == 0:
            raise SSLWantWriteError(standard.SSL_ERROR_WANT_WRITE, "another write is under way")
        raise TimeoutError("timed out")

    def write_records(self, connection: Any, data: memoryview) -> int:
        begun = len(self.unfinished)
        if begun and data[:begun] != self.unfinished:
            self.finish(connection)
            begun = 0
        sent = 0
        while sent < len(data):
            try:
                sent += self.insist(self.offer, connection, data[sent : sent + (begun or RECORD)])
            except SSLWantWriteError:  # with timeout 0; the next write is to begin with what is left
                if not sent:
                    raise
                break
            begun = 0
        return sent

    def finish(self, connection: Any) -> None:
        """Send what is left of a write that was broken off."""
        if self.unfinished:
            self.insist(self.offer, connection, self.unfinished)

    def offer(self, connection: Any, record: Any) -> int:
        """Offer a record to OpenSSL, and keep it for as long as OpenSSL has it."""
        try:
            sent: int = connection.write(record)
        except (SSLWantReadError, SSLWantWriteError):
            self.unfinished = bytes(record)
            raise
        self.unfinished = b""
        return sent

    # ---- ends

    def unwrap(self) -> Any:
        """End TLS in both directions, and go on in clear. Parks: until the peer has done so, too (``read fd N``)."""
        connection = self._sslobj
        if connection is None:
            return super().unwrap()
        self.take_turn()
        try:
            self.finish(connection)
            self.insist(connection.shutdown)
        finally:
            self.turn.release()
        self._sslobj = None
        self.reset_blocking()
        return self


class SSLContext(standard.SSLContext):
    """What connections have in common: certificates, protocols, options. Source: ``ssl.SSLContext``."""

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
