"""Why a request or a run has failed, in a few words: the same for the same reason, so that they can be counted."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

LONGEST = 80  # characters of a message

SAID = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection reset",
    errno.EPIPE: "connection reset",
    errno.EMFILE: "too many open files in the tester: see ulimit -n",
    errno.EADDRNOTAVAIL: "no free local port: too many connections were opened in a minute",
}


CLOSED = {"RemoteDisconnected", "IncompleteRead", "ChunkedEncodingError", "ProtocolError"}
"""What http.client, urllib3 and requests raise where the other side has hung up."""


def said(error: BaseException) -> str:
    """Say why a request has failed."""
    found = list(chain(error))
    for each in found:
        if isinstance(each, socket.gaierror):
            return "unknown host"
        if isinstance(each, TimeoutError) or type(each).__name__ in ("ReadTimeout", "ConnectTimeout"):
            return "timed out"
        number = each.errno or 0 if isinstance(each, OSError) else 0
        if number in errno.errorcode:
            return SAID.get(number) or os.strerror(number).lower()
    if CLOSED & {type(each).__name__ for each in found}:
        return "connection closed amid an answer"
    return str(error) if isinstance(error, ConnectionResetError) else described(error)


def described(error: BaseException) -> str:
    """Say what a scenario has raised: a check that failed by its message, all else by its type, too."""
    line = str(error).strip().partition("\n")[0]
    if isinstance(error, AssertionError):
        kind = "check failed"
    else:
        kind = type(error).__name__
    text = f"{kind}: {line}" if line else kind
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give an error, and those by which it came about."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        reason = getattr(each, "reason", None)
        waiting += [arg for arg in (*each.args, reason) if isinstance(arg, BaseException)]
        waiting += [each.__cause__, each.__context__]
