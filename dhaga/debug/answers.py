"""Answers: what can be asked of a process, as JSON, by a socket or a page. Not here: who may ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from textwrap import dedent
from typing import Any

from dhaga.kernel.microthread import Dhaga
from dhaga.kernel.scheduler import schedulers
from dhaga.kernel.waiter import Waiter

from .crowds import SHOWN, Crowd
from .dump import lines_of, text_of
from .interest import NotBegun
from .portraits import portrait
from .recent import Recent
from .views import everybody_of, snapshot

LONGEST_TRACE = 60.0
"""Seconds of a trace that can be asked for."""

Answer = dict[str, Any]


class Refused(Exception):
    """What was asked for is not to be had; says why."""


class Answers:
    """Answer questions: each method named in ``QUESTIONS`` is one."""

    def __init__(self) -> None:
        self.crowd = Crowd()
        self.recent = Recent()

    def close(self) -> None:
        """Do nothing any more for those who ask again and again."""
        self.crowd.shares.interest.lose()
        self.recent.interest.lose()

    def to(self, question: object) -> Answer:
        """Answer a question, ``{"ask": NAME, …}``. Returns: in any case a dict; one with ``error`` if it is refused."""
        try:
            if not isinstance(question, dict):
                raise Refused("a question is an object with an ask")
            return self.method(question)()
        except (Refused, ValueError) as error:
            return {"error": str(error)}
        except NotBegun:
            return {"error": "the process is at its end, where nothing can be measured any more; a dump can be had"}

    def method(self, question: dict[str, Any]) -> Callable[[], Answer]:
        """Return the call that answers. Raises: Refused if its arguments do not fit."""
        arguments = dict(question)
        name = arguments.pop("ask", None)
        if name not in QUESTIONS:
            raise Refused(f"there is nothing to ask by {name!r}, but by {', '.join(QUESTIONS)}")
        method = getattr(self, name)
        kinds = {each.name: KINDS[each.annotation] for each in inspect.signature(method).parameters.values()}
        for key, value in arguments.items():
            if key not in kinds or type(value) not in kinds[key]:
                raise Refused(f"{name} takes no {key}={value!r}")
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise Refused(f"{name}: {error}") from None
        return lambda: method(**arguments)

    def table(self, filter: str = "", sort: str = "share", most: int = SHOWN) -> Answer:
        """Tell who is there, see ``Crowd.table``."""
        return self.crowd.table(filter, sort, most)

    def dump(self, ident: int = 0) -> Answer:
        """Tell in text what everybody is at, or one dhaga alone."""
        if not ident:
            return {"text": text_of(snapshot())}
        for waiter in waiters():
            if waiter.ident == ident:
                return {"text": dedent("\n".join(lines_of(portrait(waiter))))}
        raise Refused("it has ended")

    def snapshot(self) -> Answer:
        """Give all that a dump tells, as values."""
        return asdict(snapshot())

    def trace(self, seconds: float = 2.0) -> Answer:
        """Give the trace of the last seconds, see ``Recent.events``."""
        if not 0 < seconds <= LONGEST_TRACE:
            raise ValueError(f"a trace is of more than 0 and at most {LONGEST_TRACE:g} seconds, not {seconds:g}")
        return {"seconds": seconds, "traceEvents": self.recent.events(seconds)}

    def cancel(self, ident: int) -> Answer:
        """Cancel one dhaga."""
        for dhaga in waiters():
            if dhaga.ident == ident and isinstance(dhaga, Dhaga):
                return {"name": dhaga.name, "cancelled": dhaga.cancel("asked for from outside of the process")}
        raise Refused("it has ended, or is no dhaga: only those can be cancelled")


QUESTIONS = ("table", "dump", "snapshot", "trace", "cancel")
KINDS = {"str": (str,), "int": (int,), "float": (float, int)}


def waiters() -> list[Waiter]:
    """Return everybody whom a scheduler runs."""
    return [waiter for scheduler in list(schedulers) for waiter in everybody_of(scheduler)]
