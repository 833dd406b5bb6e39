"""The soak of a night: ``python -m tests.soak.night --hours 8 --record night.jsonl``.

``dhaga serve`` under OpenTelemetry's agent, where that is installed, with views that wait in psycopg, psycopg2 and
redis-py. Clients check each answer; some read slowly and some die. Reloads replace the workers. A relay before
PostgreSQL and one before Redis reset all connections and refuse new ones, as a restart of the service does. The run
fails at a wrong answer, an error that no trouble explains, an error in the log, a missing span, or a process that
grows. Linux only.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from tests.soak.night.run import Night

APP = "tests.soak.night.site:app"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.night", description="Run a service for a night.")
    parser.add_argument("--hours", type=float, default=8, metavar="N", help="how long, 8 unless given")
    parser.add_argument("--seed", type=int, metavar="N", help="of all choices; a random one unless given")
    parser.add_argument("--record", type=Path, metavar="FILE", help="where to write samples and troubles")
    parser.add_argument("--app", default=APP, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not 0 < options.hours < float("inf"):
        parser.error(f"--hours takes a number above 0, not {options.hours}")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"night of {options.hours:g} h: repeat it with --seed {seed}", flush=True)
    night = Night(options.hours * 3600, seed, options.record, options.app, lambda line: print(line, flush=True))
    return 0 if night.run() else 1


if __name__ == "__main__":
    raise SystemExit(main())
