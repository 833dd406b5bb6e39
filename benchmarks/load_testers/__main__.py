"""`examples/load` beside Locust: users that one core holds, and the highest rate. `python -m benchmarks.load_testers`.

Both get the same page from the same server, which answers at once and runs on another CPU. Each sample is taken in a
new process on one CPU, and the testers take turns. There are two pairs. Locust's HttpUser uses requests on gevent, and
the default client of `examples/load` uses requests on dhagas. FastHttpUser (geventhttpclient) and the light client of
`examples/load` (httptools) both have a compiled parser. No tester prints anything during the measurement.

Users send a request once per second. A core holds a number of users if the p99 is below 250 ms, 95 % of the rate is
reached, and nothing fails. The result is extrapolated from the highest such number to 90 % of the core. The highest
rate is the rate of 100 users without pauses. All this takes four minutes.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from benchmarks.load_testers.charts import charts
from benchmarks.load_testers.report import ALIKE, FLAT_OUT, PAUSE, Rows, claims, row_of, table_of_rates, table_of_users
from benchmarks.load_testers.samples import Sample, Work, sample
from benchmarks.load_testers.server import serving
from benchmarks.machine import cpus, raise_file_limit, surroundings
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome, Tell
from benchmarks.tables.standalone import show_tables

ROUNDS = 3
SECONDS, RAMP = 2.2, 1.5
RUNGS = {"dhaga": (500, 1000, 1500), "dhaga light": (3000, 6000)}
"""Numbers of users who send a request once per second. The last number is too high for one tester of the pair on the
machine where these numbers were chosen.
"""

COMING = {"dhaga": 500, "dhaga light": 1500}
"""Number of users who start per second, before the measurement. A new user costs as much as two or three requests."""

EAGER = 100
"""Number of users without pauses: enough to keep a core busy, but few enough that each gets an answer within 0.2 s."""

QUICK = 10  # users

STORY = (
    "A load tester whose users are dhagas beside Locust, whose users are greenlets of gevent's; no figures were "
    "published for it. One core each: how many users who ask once a second does it hold, and how many requests a "
    "second do users make who never pause? With requests as the client of both, and with the lighter client of each."
)

Turn = tuple[str, str, Work]
"""The row, the rival and the work of a sample."""


def _turns(quick: bool) -> Iterator[Turn]:
    """Yield the turns of one round. The two rivals of a pair follow each other."""
    for pair in ALIKE.items():
        for users in (QUICK,) if quick else RUNGS[pair[0]]:
            work = (
                Work(users, PAUSE, 0.1, 1.2)
                if quick
                else Work(users, PAUSE, max(RAMP, users / COMING[pair[0]]), SECONDS)
            )
            yield from ((row_of(users), rival, work) for rival in pair)
        work = Work(QUICK, 0.0, 0.1, 0.2) if quick else Work(EAGER, 0.0, RAMP, SECONDS)
        yield from ((FLAT_OUT, rival, work) for rival in pair)


def _has_locust() -> bool:
    return find_spec("locust") is not None


def _measured(quick: bool, tell: Tell) -> Rows:
    turns = [turn for turn in _turns(quick) if turn[1] in ALIKE or _has_locust()]
    rows: Rows = {}
    for row, rival, found in _at_once(turns) if quick else _in_turn(turns, tell):
        rows.setdefault(row, {}).setdefault(rival, []).append(found)
    return rows


def _in_turn(turns: list[Turn], tell: Tell) -> Iterator[tuple[str, str, Sample]]:
    """Measure one turn after another, in reverse order in every second round."""
    tester, server = cpus() or (None, None)
    with serving(server) as url:
        for number in range(ROUNDS):
            for row, rival, work in turns[:: -1 if number % 2 else 1]:
                tell(f"round {number + 1} of {ROUNDS}: {rival}, {row}")
                yield row, rival, sample(rival, url, work, tester)


def _at_once(turns: list[Turn]) -> Iterator[tuple[str, str, Sample]]:
    """Measure all turns at the same time. This only shows that the measurement works."""
    with serving(None) as url, ThreadPoolExecutor(len(turns)) as pool:
        found = pool.map(lambda turn: sample(turn[1], url, turn[2], None), turns)
        yield from ((row, rival, one) for (row, rival, _), one in zip(turns, found, strict=True))


def measure(quick: bool, tell: Tell) -> Outcome:
    """Run all rows, the testers in turn."""
    raise_file_limit()
    rows = _measured(quick, tell)
    notes = [
        "requests by CPU second are those for each second of the tester's CPU time, which neighbours disturb least",
        "latencies of Locust are rounded to two digits: it keeps no more",
        "Locust lets the users of a second come all at once, and with equal pauses they stay together: hence its p99, "
        "by which it seldom counts as holding them; users that a core holds are then told by CPU time at the fewest",
    ]
    if not _has_locust():
        notes.append("Locust is not installed here: its rows are left out, and nothing is claimed")
    effort = {"rounds": len(rows[FLAT_OUT]["dhaga"]), "seconds": SECONDS}
    return Outcome(
        name="load_testers",
        title="A load tester beside Locust",
        story=STORY,
        where=surroundings("locust", "geventhttpclient", "requests", "urllib3", "httptools", **effort),
        knobs={"users": RUNGS, "pause": PAUSE, "ramp": RAMP, "users without a pause": EAGER, "quick": quick},
        samples={
            row: {rival: list(map(asdict, each)) for rival, each in rivals.items()} for row, rivals in rows.items()
        },
        claims=claims(rows),
        tables=[table_of_users(rows), table_of_rates(rows)],
        notes=notes,
    )


def draw(outcome: Outcome) -> list[Chart]:
    """Draw rates, CPU time per request, and memory."""
    return charts(
        {
            row: {rival: [Sample(**one) for one in each] for rival, each in rivals.items()}
            for row, rivals in outcome.samples.items()
        }
    )


def main() -> None:
    """Measure and print; exit status 1 if a claim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load_testers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the smallest size: checks that all of it runs")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write load_testers.json there")
    options = parser.parse_args()
    outcome = measure(options.quick, lambda text: print(text, flush=True))
    if options.results:
        outcome.save(options.results)
    show_tables(outcome)
    print()
    for claim in outcome.claims:
        print(f"{claim.what}: {claim.value:.2f}, {'reached' if claim.reached else 'missed'} (≥ {claim.bound:g})")
    raise SystemExit(not all(claim.reached for claim in outcome.claims))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
