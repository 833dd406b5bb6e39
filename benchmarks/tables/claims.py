"""The claims of the benchmarks of single parts, as outcomes. Each function converts the JSON file of one benchmark.

Claims that differ only in size have the same text before the colon.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import http_client, http_fetch, markdown, pool, preemption, seeing, swap
from benchmarks.cores import report as cores_report
from benchmarks.kernel.report import NOTES as KERNEL_NOTES
from benchmarks.kernel.report import markdown as kernel_markdown
from benchmarks.kernel.rows import ROWS, Row, Target
from benchmarks.kernel.runner import Results as KernelResults
from benchmarks.samples import Results as CoresResults
from benchmarks.service import report as service_report
from benchmarks.service.samples import Results as ServiceResults
from benchmarks.tables.number_format import printed
from benchmarks.tables.outcome import RESULTS, Claim, Outcome, Table
from benchmarks.web.__main__ import FASTER, HELLO, HOLDING, IDLE, LEAST_KEPT, MOST_MB
from benchmarks.web.__main__ import NOTES as WEB_NOTES
from benchmarks.web.__main__ import Results as WebResults
from benchmarks.web.__main__ import markdown as web_markdown

Found = dict[str, Any]
NOTES = {"kernel": KERNEL_NOTES, "web": WEB_NOTES}


def _ratios(ours: Iterable[float], theirs: Iterable[float]) -> list[float]:
    """Divide the figures of one rival by the figures of another, round by round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=False)]


def _by(samples: Sequence[Mapping[str, float]], key: str) -> list[float]:
    return [sample[key] for sample in samples]


def _at_least(bound: float, what: str, samples: Sequence[float], unit: str = "x") -> Claim:
    return Claim(what, bound, True, samples, unit)


def _at_most(bound: float, what: str, samples: Sequence[float], unit: str = "x") -> Claim:
    return Claim(what, bound, False, samples, unit)


def _outcome(found: Found, name: str, title: str, story: str, claims: Iterable[Claim], *tables: Table) -> Outcome:
    where = dict(found.get("where") or {"python": f"CPython {found['python']}"})  # notifications records only this
    knobs = dict(where.pop("effort", {}))
    notes = [NOTES[name].strip().replace("\n", " ")] if name in NOTES else []
    return Outcome(name, title, story, where, knobs, {}, list(claims), list(tables), notes)


def _tables(text: str, *captions: str) -> list[Table]:
    """Return the tables of a Markdown text with captions. A table with an empty caption is left out."""
    found = zip(captions, markdown.tables(text), strict=False)
    return [Table(caption, head, lines) for caption, (head, lines) in found if caption]


# ---- services, the kernel and the web


def service(found: Found) -> Outcome:
    """Read what `benchmarks.service` has measured."""
    results = ServiceResults(**found)
    return _outcome(
        found,
        "service",
        "Services, as users run them",
        "Flask, Django and FastAPI on PostgreSQL and Redis; the server on a core, on another clients that ask again "
        "as soon as they are answered. The rivals have as many threads as serve best.",
        service_report.claims(results),
        Table("Services under load, medians", service_report.HEAD, list(service_report.lines(results))),
    )


def _kernel_ratios(results: KernelResults, row: Row, target: Target) -> list[float]:
    """Return the figure that a target bounds, round by round: a ratio of rates or costs, or Dhaga's cost itself."""
    ours = results.of(row, "dhaga")
    if target.than is None:
        return [sample * row.unit.factor for sample in ours]
    theirs = results.of(row, row.forms(target.than)[0])
    return _ratios(ours, theirs) if row.unit.rate == target.of_rate else _ratios(theirs, ours)


def kernel(found: Found) -> Outcome:
    """Read what `benchmarks.kernel` has measured."""
    results = KernelResults(**found)

    def claims() -> Iterator[Claim]:
        for row in ROWS:
            for target in row.targets:
                if samples := _kernel_ratios(results, row, target):
                    unit = f"x {target.than}" if target.than else row.unit.name
                    yield Claim(row.title, target.bound, target.of_rate, samples, unit)

    captions = ("Medians; of several forms the first counts", "Echo, as its load saw it")
    return _outcome(
        found,
        "kernel",
        "The kernel: microthreads, locks, queues, sockets",
        "Yields, spawns, locks, queues and sockets, each beside gevent, asyncio, uvloop, threads and the raw limit: "
        "bare greenlets, a bare epoll loop. ≥ compares rates, ≤ costs.",
        claims(),
        *_tables(kernel_markdown(results), *captions),
    )


def web(found: Found) -> Outcome:
    """Read what `benchmarks.web` has measured."""
    results = WebResults(**found)

    def claims() -> Iterator[Claim]:
        for (ours, theirs, bound), (row, connections) in ((pair, row) for pair in FASTER for row in HELLO.items()):
            samples = _ratios(results.of(row, ours, "rate"), results.of(row, theirs, "rate"))
            if samples:
                yield _at_least(bound, f"WSGI hello, {ours} beside {theirs}: {connections:,} connections", samples)
        for rival in HOLDING[:2]:
            if kept := results.of(IDLE, rival, "kept"):
                memory = results.of(IDLE, rival, "memory")
                yield _at_most(MOST_MB, f"10,000 idle polls in a process: {rival}", memory, "MB")
                yield _at_least(
                    100 * LEAST_KEPT, f"rate kept beside 10,000 idle polls: {rival}", [100 * part for part in kept], "%"
                )

    return _outcome(
        found,
        "web",
        "Web servers",
        "A small answer by wrk over 100 and 1,000 connections, the server on one core, wrk on the other; then 10,000 "
        "long polls that wait in one process, and what they leave of the rate.",
        claims(),
        *_tables(web_markdown(results), "Hello", "", "Idle polls"),
    )


def cores(found: Found) -> Outcome:
    """Read what `benchmarks.cores` has measured."""
    results = CoresResults(**found)
    return _outcome(
        found,
        "cores",
        "Several cores, without the interpreter lock",
        "Each work by one OS thread, by several and by several processes on a free-threaded Python, and by one and "
        "several threads on an ordinary one with the accelerator.",
        cores_report.claims(results),
        Table("Cores, medians", cores_report.HEAD, list(cores_report.lines(results))),
    )


# ---- clients, TLS, coroutines and threads


def http_clients(found: Found) -> Outcome:
    """Read what `benchmarks.http_client` has measured."""
    claims = (
        _at_least(http_client.TARGET, f"Session beside requests on gevent, by CPU time: {row}", ratios)
        for row, rivals in found["samples"].items()
        if "," not in row
        for ratios in [_ratios(_by(rivals["dhaga"], "by CPU"), _by(rivals["gevent"], "by CPU"))]
    )
    story = "Requests per second of the client's CPU time, over connections that are kept."
    return _outcome(found, "http_client", "Session, beside requests", story, claims)


def http_fetches(found: Found) -> Outcome:
    """Read what `benchmarks.http_fetch` has measured."""
    claims = (
        _at_least(
            http_fetch.TARGET,
            f"HTTPClient.fetch beside Tornado's own client in coroutines: {row}",
            _ratios(_by(rivals["dhaga"], "rate"), _by(rivals["tornado"], "rate")),
        )
        for row, rivals in found["samples"].items()
    )
    story = "Requests per second of the same client, called as a function and awaited in coroutines."
    return _outcome(found, "http_fetch", "HTTPClient, beside Tornado's own", story, claims)


def tls(found: Found) -> Outcome:
    """Read what `benchmarks.tls` has measured."""
    key = "each CPU second"
    claims = (
        _at_least(
            bound,
            f"{'TLS echo' if work == 'echo' else 'TLS handshakes, bulk data'} beside gevent, by CPU time: {work}",
            _ratios(_by(of["dhaga"], key), _by(of["gevent"], key)),
        )
        for work, bound in found["targets"].items()
        for of in [found["samples"][work]]
    )
    story = "What a server does in a second of its own CPU time: messages of 256 bytes, handshakes, bulk data."
    return _outcome(found, "tls", "TLS", story, claims)


def hops(found: Found) -> Outcome:
    """Read what `benchmarks.aio` has measured."""
    claims = (
        _at_most(row["target"], f"a coroutine called by a dhaga, beside asyncio's own task: {name}", samples)
        for name, row in found["rows"].items()
        for samples in [_ratios(row["samples"]["dhaga"], row["samples"]["tasks"])]
    )
    story = "CPU time of `await_(coroutine())` beside that of `await loop.create_task(coroutine())`."
    return _outcome(found, "aio", "The door to coroutines", story, claims)


def pools(found: Found) -> Outcome:
    """Read what `benchmarks.pool` has measured."""
    claims = (
        _at_most(
            pool.TARGET,
            f"a call submitted to a pool, beside spawn + join: {name}",
            _ratios(found["samples"][name], found["samples"][pool.BASE]),
        )
        for name in found["ratios"]
    )
    story = "Empty calls, 10,000 at once, from submitting to the result."
    return _outcome(found, "pool", "Pools", story, claims)


PATCHED = {"native": "native dhaga code", "gevent": "gevent's patch"}


def swaps(found: Found) -> Outcome:
    """Read what `benchmarks.swap` has measured."""
    key = "each CPU second"
    claims = (
        _at_least(
            bound,
            f"unchanged threaded program beside {PATCHED[than]}, by CPU time: {swap.WORKS[work].words}",
            _ratios(_by(found["samples"][work]["patched"], key), _by(found["samples"][work][than], key)),
        )
        for work, (bound, than) in found["targets"].items()
    )
    story = "A plain threaded program as it is, its threads as dhagas, beside native dhaga code and gevent's patch."
    return _outcome(found, "swap", "Whole programs", story, claims)


def looks(found: Found) -> Outcome:
    """Read what `benchmarks.seeing` has measured."""
    samples = found["samples"]
    percent, added = (partial(each, samples) for each in (seeing.percent, seeing.added))
    claims = (
        _at_most(seeing.WATCHED, "what a watchdog adds to a yield, CPU time", percent("watch"), "%"),
        _at_most(seeing.WATCHED, "what is left of it once the watchdog has stopped", percent("off again"), "%"),
        _at_most(seeing.TRACED, "what a trace adds to a yield, CPU time", added("trace"), "µs"),
    )
    lines = [[way, printed(1e3 * statistics.median(each))] for way, each in samples.items()]
    story = "A yield among 100 dhagas alone, beside a watchdog, under a trace, and while CPU shares are measured."
    yields = Table("A yield, by CPU time", ("what looks", "ns"), lines)
    return _outcome(found, "seeing", "Seeing inside", story, claims, yields)


def preempted(found: Found) -> Outcome:
    """Read what `benchmarks.preemption` has measured."""
    beside, views, loss = (found["samples"][name] for name in ("beside", "views", "loss"))
    claims = (
        _at_most(
            preemption.P99, "p99 of 1,000 connections beside a thread that computes", _by(beside["dhaga"], "p99"), "ms"
        ),
        _at_most(
            1.0,
            "p99 of light views beside heavy ones, of gthread's",
            _ratios(_by(views["dhaga serve"], "p99"), _by(views["gunicorn gthread, 64 threads"], "p99")),
        ),
        *(
            _at_most(
                preemption.LOSS,
                f"CPU time that preemption adds to a computation: {name}",
                [100 * (ratio - 1) for ratio in _ratios(_by(loss["preempted"], name), _by(loss["cooperative"], name))],
                "%",
            )
            for name in preemption.LOOP_NAMES
        ),
    )
    lines = [[*line] for line in preemption.waits(found)]
    story = "How long clients wait for a server in which a thread computes, and what preemption costs that thread."
    waits = Table("Waits beside code that computes", preemption.WAITS, lines)
    return _outcome(found, "preemption", "Preemption", story, claims, waits)


# ---- without targets of their own


def notifications(found: Found) -> Outcome:
    """Read what `benchmarks.notifications` has measured."""
    keys = (("p50", 1e3), ("p99", 1e3), ("max", 1e3), ("bytes_per_client", 1e-3), ("cpu_per_delivery", 1e6))
    lines = [
        [rival, *(printed(factor * statistics.median(_by(samples, key))) for key, factor in keys)]
        for rival, samples in found["samples"].items()
    ]
    head = ("server", "p50 ms", "p99 ms", "latest ms", "KB a client", "CPU µs a delivery")
    story = "A message to all of 10,000 clients that wait, server and clients on a core each; medians of the rounds."
    broadcast = Table("A broadcast", head, lines)
    return _outcome(found, "notifications", "The notification server", story, (), broadcast)


def priorities(found: Found) -> Outcome:
    """Read what `benchmarks.priorities` has measured."""
    keys = ("p50", "p99", "worst")
    lines = [
        [f"woken {how}", priority, *(printed(delays[key]) for key in keys)]
        for how, each in found["delays"].items()
        for priority, delays in each.items()
    ]
    story = "How long a dhaga waits for its turn among 1,000 that compute 50 µs between two yields."
    delays = Table("Delays", ("one dhaga", "priority", *(f"{key} ms" for key in keys)), lines)
    return _outcome(found, "priorities", "Priorities", story, (), delays)


def offloads(found: Found) -> Outcome:
    """Read what `benchmarks.offload` has measured."""
    keys, ways = ("each", "bystander waits"), ("inline", "offloaded")
    lines = [
        [printed(call["blocks for"]), *(printed(call[way][key]) for key, way in product(keys, ways))]
        for call in found["calls"]
    ]
    head = ("blocks for, µs", "a call inline, µs", "offloaded, µs", "another waits, inline, µs", "offloaded, µs")
    story = "Calls that block, made by 100 dhagas in place and by `dhaga.offload`, and how long another dhaga waits."
    return _outcome(found, "offload", "Blocking calls", story, (), Table("Blocking calls", head, lines))


EARLIER: dict[str, Callable[[Found], Outcome]] = {
    "service": service,
    "kernel": kernel,
    "web": web,
    "http_client": http_clients,
    "http_fetch": http_fetches,
    "tls": tls,
    "aio": hops,
    "pool": pools,
    "swap": swaps,
    "seeing": looks,
    "preemption": preempted,
    "cores": cores,
    "notifications": notifications,
    "priorities": priorities,
    "offload": offloads,
}
"""For each NAME.json, the function that converts it."""


COMMANDS = {name: f"python -m benchmarks.{name}" for name in EARLIER}
"""For each benchmark, the command that repeats it."""


def earlier(folder: Path = RESULTS) -> list[Outcome]:
    """Return the outcomes of the benchmarks that have a JSON file in the folder."""
    paths = ((read, folder / f"{name}.json") for name, read in EARLIER.items())
    return [read(json.loads(path.read_text())) for read, path in paths if path.exists()]
