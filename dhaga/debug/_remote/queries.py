"""The queries that a process answers through its socket or its page. Other modules check permissions.

A query is a JSON object ``{"ask": NAME, …}`` with the arguments of the method NAME. Arguments that do not match the
method's annotations are refused. Queries keep two probes on: the table's accounting of CPU time, and the flight
recorder. The history is recorded from ``start`` to ``close``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from textwrap import dedent
from typing import Any

from ..._kernel.run import preemption
from ..._kernel.run.attachment import schedulers
from ..._kernel.run.microthread import Dhaga
from ..._kernel.wait.waiter import Waiter
from .._dhaga_table import DEFAULT_ROWS, DhagaTable
from .._dump import joined, lines_of, text_of
from .._history import SAMPLE_SECONDS, History
from .._on_demand import ProbeUnavailable
from .._snapshot import PLACES_SHOWN, snapshot, view_one, waiters_of, waiting_threads
from .._trace import FlightRecorder

MAX_TRACE_SECONDS = 60.0
"""Maximum number of seconds of a trace that can be requested."""

Answer = dict[str, Any]


class QueryRefused(Exception):
    """Raised if a query cannot be answered; the text gives the reason."""


class QueryHandlers:
    """The queries of one inspector or page. ``QUERIES`` names their methods. From: any OS thread."""

    def __init__(self) -> None:
        self.dhagas = DhagaTable()
        self.recorder = FlightRecorder()
        self.samples = History()

    def start(self) -> None:
        """Start to record the history."""
        self.samples.start()

    def close(self) -> None:
        """Switch the probes off permanently."""
        self.samples.close()
        self.dhagas.shares.probe.close()
        self.recorder.probe.close()

    def answer(self, query: object) -> Answer:
        """Answer a query. Returns: a dict, which has the key ``error`` if the query is refused."""
        try:
            if not isinstance(query, dict):
                raise QueryRefused("a query is an object with a field ask")
            return self.bound_method(query)()
        except (QueryRefused, ValueError) as error:
            return {"error": str(error)}
        except ProbeUnavailable:
            return {"error": "the process is exiting, so that only a dump is available"}

    def bound_method(self, query: dict[str, Any]) -> Callable[[], Answer]:
        """Return a function that answers a query. Raises: QueryRefused for an unknown query or wrong arguments."""
        arguments = dict(query)
        name = arguments.pop("ask", None)
        if name not in QUERIES:
            raise QueryRefused(f"there is no query {name!r}; the queries are {', '.join(QUERIES)}")
        method = getattr(self, name)
        kinds = {each.name: KINDS[each.annotation] for each in inspect.signature(method).parameters.values()}
        for key, value in arguments.items():
            if key not in kinds or type(value) not in kinds[key]:
                raise QueryRefused(f"the query {name} does not accept {key}={value!r}")
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise QueryRefused(f"{name}: {error}") from None
        return lambda: method(**arguments)

    def table(
        self,
        filter: str = "",
        sort: str = "held",
        most: int = DEFAULT_ROWS,
        grouped: bool = False,
        opened: list[Any] | None = None,
    ) -> Answer:
        """Return the table of all dhagas; see ``DhagaTable.table``."""
        return self.dhagas.table(filter, sort, most, grouped, opened or ())

    def measure(self) -> Answer:
        """Keep measuring the shares of the time. A client sends this query during a long pause between two tables."""
        self.dhagas.shares.now()
        return {}

    def history(self, since: float = 0.0) -> Answer:
        """Return the samples of the last minutes; see ``History``. ``since``: return only samples after this time.

        The answer also contains the lines at which most turns have been preempted, each with its count.
        """
        preempted = preemption.places.most_common(PLACES_SHOWN)
        return {"interval": SAMPLE_SECONDS, "samples": self.samples.since(since), "preempted": preempted}

    def dump(self, ident: int = 0) -> Answer:
        """Return the text dump of the dhaga, main code or OS thread with this ident; 0 means the whole process."""
        if not ident:
            return {"text": text_of(snapshot())}
        for waiter in [*all_waiters(), *waiting_threads()]:
            if waiter.ident == ident:
                return {"text": dedent(joined(lines_of(view_one(waiter))))}
        raise QueryRefused("it has ended")

    def snapshot(self) -> Answer:
        """Return the snapshot of the process as dicts."""
        return asdict(snapshot())

    def trace(self, seconds: float = 2.0) -> Answer:
        """Return the trace of the last ``seconds`` seconds; see ``FlightRecorder.events``."""
        if not 0 < seconds <= MAX_TRACE_SECONDS:
            raise ValueError(f"a trace covers more than 0 and at most {MAX_TRACE_SECONDS:g} seconds, not {seconds:g}")
        return {"seconds": seconds, "traceEvents": self.recorder.events(seconds)}

    def cancel(self, ident: int) -> Answer:
        """Cancel the dhaga with this ident."""
        for dhaga in all_waiters():
            if dhaga.ident == ident and isinstance(dhaga, Dhaga):
                return {"name": dhaga.name, "cancelled": dhaga.cancel("requested from outside the process")}
        raise QueryRefused("it has ended, or is not a dhaga and cannot be cancelled")


QUERIES = ("table", "history", "dump", "snapshot", "trace", "cancel", "measure")
KINDS = {"bool": (bool,), "str": (str,), "int": (int,), "float": (float, int), "list[Any] | None": (list,)}


def all_waiters() -> list[Waiter]:
    """Return the dhagas and the main code of all schedulers."""
    return [waiter for scheduler in list(schedulers) for waiter in waiters_of(scheduler)]
