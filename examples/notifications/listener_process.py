"""Listeners in a process of its own, to be killed: it says on its standard output what they get.

It is told on its standard input, as JSON, what to listen to: a list of {"name", "topic", "last", "places"}. It says
lines: `name id number` for a message, whose text is a number, `name id -` where a listener begins, `name - gap`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .__main__ import raise_descriptor_limit
from .client_protocols import Heard
from .listener import Endpoint, Listener, start


class ReportingListener(Listener):
    """A listener that says what it gets."""

    def __init__(self, name: str, topic: str, last: str | None, places: list[list[Any]]) -> None:
        self.name = name
        super().__init__([Endpoint(*place) for place in places], topic, self.tell, last=last, begun=self.tell_begin)

    def tell(self, message: Heard) -> None:
        """Say what came: one short write, which is whole even if we are killed."""
        say(f"{self.name} {message['id']} {message['data']}")

    def tell_begin(self, last: str) -> None:
        """Say from where on we listen."""
        say(f"{self.name} {last} -")

    def note(self, item: Heard) -> None:
        """Say also that something is missing."""
        if "gap" in item or "lost" in item:
            say(f"{self.name} - gap")
        super().note(item)


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


def main() -> None:
    """Listen until killed."""
    raise_descriptor_limit()
    for thread in [start(ReportingListener(**told)) for told in json.load(sys.stdin)]:
        thread.join()


if __name__ == "__main__":
    main()
