"""What explains an error: connections that were cut on purpose, and times without file descriptors."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from errno import EMFILE
from typing import Any

BY_US = "by the soak"
"""The reason of every cancel here: one with another reason is a fault."""

KEPT = 30.0
"""Seconds after which a cut explains nothing any more: each attempt is over by then."""

AFTERMATH = 5.0
"""Seconds for which servers may go on to speak of a shortage; they try again every 0.1 s."""


class Cuts:
    """Connections that were cut at their server's end, by the addresses of server and client."""

    def __init__(self) -> None:
        self.made: dict[tuple[Any, Any], float] = {}
        self.unexplained: dict[tuple[Any, Any], float] = {}
        """Those of which no client has complained yet."""

    def note(self, server: Any, client: Any) -> None:
        """Note a cut that is about to be made."""
        now = time.monotonic()
        for cuts in (self.made, self.unexplained):
            for key, moment in list(cuts.items()):
                if moment < now - KEPT:
                    cuts.pop(key, None)
            cuts[server, client] = now

    def has(self, server: Any, client: Any, since: float) -> bool:
        """Tell whether a connection was cut: a port may have been another's before."""
        self.unexplained.pop((server, client), None)
        return self.made.get((server, client), 0.0) >= since

    def take_one(self, server: Any, since: float) -> bool:
        """Take a cut at this server for the cause of an error, where nobody can tell which connection it was.

        Each explains one error, as a connection carries one request at a time.
        """
        for key, moment in list(self.unexplained.items()):
            if key[0] == server and moment >= since and self.unexplained.pop(key, None) is not None:
                return True
        return False


class Shortage:
    """When there were no file descriptors to be had."""

    def __init__(self) -> None:
        self.lasts = False
        self.ended = 0.0
        self.cuts = os.environ.get("DHAGA_POLLER") == "ioloop"
        """Whether servers lose connections by it: that poller needs a descriptor more for each that it watches."""

    def is_felt(self) -> bool:
        """Tell whether there are none, or were none a moment ago."""
        return self.lasts or self.ended > time.monotonic() - AFTERMATH

    def explains(self, error: BaseException, since: float) -> bool:
        """Tell whether an error says so, or may follow from it, of a time when it was so."""
        said = getattr(error, "errno", None) == EMFILE or os.strerror(EMFILE) in str(error)
        follows = self.cuts and isinstance(error, OSError) and not isinstance(error, TimeoutError)
        return (said or follows) and (self.lasts or self.ended >= since)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves(each)
    else:
        yield error
