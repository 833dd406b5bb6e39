"""The access log: a line for each request, in the combined format that log analysers know.

What it costs a request: 2 µs to a file or a function, 12 to a logger, against 10 for all the rest but the network. So
a server keeps none unless it is asked to.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TextIO

Target = bool | logging.Logger | Callable[[str], object] | TextIO


class AccessLog:
    """Write lines to ``target``: a logger (True: ``dhaga.access``), a text file, or a function that takes the line."""

    __slots__ = ("second", "stamp", "take")

    def __init__(self, target: Any) -> None:
        if target is True:
            target = logging.getLogger("dhaga.access")
        if isinstance(target, logging.Logger):
            self.take: Callable[[str], object] = target.info
        elif hasattr(target, "write"):
            self.take = lambda line: target.write(line + "\n")
        elif callable(target):
            self.take = target
        else:
            raise TypeError(f"an access log goes to True, a logger, a text file or a function, not to {target!r}")
        self.second = -1
        self.stamp = ""

    def note(self, environ: dict[str, Any], status: str, size: int) -> None:
        """Note a request that was answered. The client's words are escaped where one might break out of its quotes."""
        now = int(time.time())
        if now != self.second:
            self.second = now
            self.stamp = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(now))
        get = environ.get
        words = get("REQUEST_URI", "-"), get("HTTP_REFERER", "-"), get("HTTP_USER_AGENT", "-")
        spoken = "".join(words)
        if '"' in spoken or "\\" in spoken or not spoken.isascii() or not spoken.isprintable():
            words = safe(words[0]), safe(words[1]), safe(words[2])
        uri, referer, agent = words
        self.take(
            f"{get('REMOTE_ADDR') or '-'} - - [{self.stamp}] "
            f'"{get("REQUEST_METHOD")} {uri} {get("SERVER_PROTOCOL")}" {status[:3]} {size or "-"} "{referer}" "{agent}"'
        )


def safe(word: str) -> str:
    """Return a word as within quotes: ASCII, with its backslashes, quotes and controls escaped."""
    return word.encode("unicode_escape").decode().replace('"', '\\"')
