"""Rate and latency of four kinds of proxy while upstreams are slow or hang: `python -m benchmarks.rate_model`.

Requests arrive at a fixed rate, even if earlier requests are unanswered (an open loop), and go to the upstreams in
turn. There are four ways to wait for the upstreams: 50 threads that take requests from a queue, or one dhaga, gevent
greenlet or asyncio task per request. The latency of an answer is measured from the moment at which its request was
*due*, so a proxy that falls behind cannot hide this. The added latency is the latency minus the upstream's latency.

A run is a new process. Its parts are in this folder; `run_statistics.py` describes the three rates.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill

from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.markdown import table
from benchmarks.rate_model.charts import latency_chart, rate_chart
from benchmarks.rate_model.claims import claims
from benchmarks.rate_model.latency_spec import spelled
from benchmarks.rate_model.options import read
from benchmarks.rate_model.parked_memory import COUNTS, table_of
from benchmarks.rate_model.rows import DRAWN, FULL, QUICK, ROWS, glanced, installed, measured
from benchmarks.rate_model.run import Plan
from benchmarks.rate_model.run_statistics import PERCENTS
from benchmarks.rate_model.runner import in_turn, upstreams_of
from benchmarks.rate_model.tables import latency_table, parked_table, rate_table
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome, Tell

TITLE = "Rate and latency under failing upstreams"
STORY = (
    "A proxy takes requests at a fixed rate and calls ten upstreams in turn, which answer after 20 or 60 ms, or one of "
    "which hangs. As published, 50 threads hold what 50 calls at a time allow, and collapse when one upstream of ten "
    "hangs, while asynchronous calls go on. Here the threads stand beside a dhaga, a greenlet and a task a request."
)
WORDS = [
    "kept: answers by the window (a second) in which the request was due, if at most 100 ms late. shifted: by the "
    "moment at which they came, less the upstream's latency. completed: by the moment at which they came; the first "
    "window, in which answers begin, and what comes after the last whole one are left out.",
    "arrivals = answered + hung + overdue + failed. hung: no answer, and none to be had from that upstream before the "
    "end of the run, 1 s after the last arrival; overdue: no answer, though the upstream's was to be had by then. An "
    "overdue request counts in the added latency with what it has reached, a bound from below; what hangs or fails "
    "has no latency.",
]
NOTES = [
    *WORDS,
    "The deviation of kept is 0 where nothing is lost and nothing piles up. Those of shifted and completed are not "
    "quite: an answer that is late by a millisecond falls into the next second, ten of them at 10,000/s.",
    "20 and 60 ms are a sleep of the way's own; in the rows called real, ten processes answer over HTTP/1.1, on "
    "another CPU than the proxy. Garbage is frozen once before each run (gc.freeze), in all ways.",
    "The loops under dhagas, gevent and asyncio count whole milliseconds and round up, where a request is started and "
    "where its upstream answers: hence a millisecond of added latency in the middle. Threads sleep more exactly.",
    "Only the rows of the claims are measured in every round.",
]

# ---- the experiment


def measure(quick: bool, tell: Tell) -> Outcome:
    """Run all rows and ways, round by round. Then park 1 to 10,000 threads, dhagas, greenlets and tasks."""
    effort = QUICK if quick else FULL
    samples = glanced(effort, tell) if quick else measured(effort, tell)
    tell("memory of 1 to 10,000 that wait")
    parked = table_of(installed(), most=COUNTS[0] if quick else COUNTS[-1])
    return Outcome(
        name="rate_model",
        title=TITLE,
        story=STORY,
        where=surroundings(**asdict(effort)),
        knobs={"threads": Plan.threads, "rows": [row.name for row in ROWS], **asdict(effort)},
        samples={"runs": samples, "parked": parked},
        claims=claims(samples),
        tables=[rate_table(samples), latency_table(samples), parked_table(parked)],
        notes=NOTES,
    )


def draw(outcome: Outcome) -> list[Chart]:
    """Draw the rate over time and the added latency, for rows whose curves differ, from the first round."""
    charts = []
    for row in DRAWN:
        first = {way: each[0] for way, each in outcome.samples["runs"][row.name].items()}
        charts.append(rate_chart(f"Answers a second: {row.words}", first, row.rate, outcome.knobs["window"]))
        charts.append(latency_chart(f"Time that the proxy adds to an answer: {row.words}", first))
    return charts


# ---- the command line


def _perform(options: argparse.Namespace) -> None:
    """Run the requested measurement, print its tables, and write the files."""
    options.output.mkdir(parents=True, exist_ok=True)
    plan = Plan(options.rate, options.num_requests, options.latency, options.threads, options.tail)
    with upstreams_of(plan, options.real) as ready:
        found = in_turn([options.way], ready, options.window)
    row = f"{plan.rate:,g}/s, {spelled(plan.latencies)}{', real' if options.real else ''}"
    for laid_out in (rate_table, latency_table):
        made = laid_out({row: {options.way: [found[options.way]]}})
        print(f"{made.caption}\n\n{table(made.head, made.lines)}\n")
    print(*(fill(each, 120) for each in WORDS), sep="\n")
    charts = {
        "rate": rate_chart(f"Rate, {options.name}", found, plan.rate, options.window),
        "latency": latency_chart(f"Added latency, {options.name}", found),
    }
    kept = {"where": surroundings(), "way": options.way, "plan": asdict(plan) | {"window": options.window}}
    path = options.output / f"{options.name}.json"
    path.write_text(json.dumps(kept | {"percents": PERCENTS, "figures": found[options.way]}, indent=1) + "\n")
    for name, chart in charts.items():
        (options.output / f"{options.name}-{name}.svg").write_text(chart.svg)


def main(arguments: Sequence[str] | None = None) -> int:
    """Perform one run as the command line says. Returns: the exit status."""
    options = read(arguments)
    raise_file_limit()
    try:
        _perform(options)
    except (RuntimeError, OSError) as error:
        print(f"rate_model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
