"""Connections of amqp, the driver of kombu and Celery: an error from outside leaves no half of a frame on either side.

Errors from outside are those of deadlines, cancels and Celery's soft time limits. amqp expects none of them. Without
``install()``, the broker would take the next messages for the rest of an interrupted one. A reader would lose the start
of a frame, and the late answer to one call would become the answer to the next. In a patched program, a post-import
hook calls ``install()``.

- If the sending of a message is interrupted, the connection is cut off. amqp and kombu see it as lost.
- If a call is interrupted while it waits for its answer, this also cuts the connection off.
- If ``drain_events`` is interrupted, the connection remains usable: the next call reads the rest of the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from amqp.abstract_channel import AbstractChannel  # type: ignore[import-untyped]
from amqp.transport import SSLTransport, TCPTransport, _AbstractTransport  # type: ignore[import-untyped]

from ._cut_off import cut_off
from ._driver_methods import Methods, closing_if_interrupted

__all__ = ["install", "uninstall"]

standard_read_frame: Any = _AbstractTransport.read_frame
standard_wait: Any = AbstractChannel.wait


class Interrupted(TimeoutError):
    """Replaces an error from outside. This class is a timeout error, because only after a timeout amqp keeps the
    received part of a frame.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def lose(transport: Any) -> None:
    """End a transport's connection, as if the network had lost it. Parks: never."""
    transport.connected = False
    if transport.sock is not None:
        cut_off(transport.sock.fileno())


def reader(standard: Callable[..., bytes]) -> Callable[..., bytes]:
    """Return a method that reads a part of a frame, and raises ``Interrupted`` for an error from outside."""

    @wraps(standard)
    def read(self: Any, *args: Any, **options: Any) -> bytes:
        try:
            return standard(self, *args, **options)
        except OSError:
            raise
        except BaseException as error:
            raise Interrupted(error) from error

    return read


@wraps(standard_read_frame)
def read_frame(self: Any, *args: Any, **options: Any) -> Any:
    """Read a frame, or the rest of one. Parks: until it has come (``read fd N``)."""
    self._dhaga_interrupted = False
    try:
        return standard_read_frame(self, *args, **options)
    except Interrupted as interrupted:
        self._dhaga_interrupted = True
        error = interrupted.error
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


@wraps(standard_wait)
def wait(self: Any, *args: Any, **options: Any) -> Any:
    """Wait for the answer to a call. Parks: until it has come (``read fd N``)."""
    transport = None if self.connection is None else self.connection._transport
    if transport is not None:
        transport._dhaga_interrupted = False  # an interrupted drain_events may have set it
    try:
        return standard_wait(self, *args, **options)
    except BaseException:
        if getattr(transport, "_dhaga_interrupted", False):
            lose(transport)
        raise


methods = Methods(
    {
        (_AbstractTransport, "write"): closing_if_interrupted(_AbstractTransport.write, lose, (OSError,)),
        (_AbstractTransport, "read_frame"): read_frame,
        (TCPTransport, "_read"): reader(TCPTransport._read),
        (SSLTransport, "_read"): reader(SSLTransport._read),
        (AbstractChannel, "wait"): wait,
    }
)
install = methods.install
uninstall = methods.uninstall
