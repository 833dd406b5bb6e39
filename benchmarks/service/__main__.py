"""Services as users run them, under load: `python -m benchmarks.service [NAME …]`, on Linux, with a C compiler.

PostgreSQL and Redis are real (DHAGA_POSTGRES, DHAGA_REDIS). Each server runs with its ordinary settings, in new
processes on one CPU. The clients, which send the next request after each answer, run on another CPU. The servers take
turns within each round, and only ratios within a round count.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import raise_file_limit, surroundings
from benchmarks.service.report import markdown
from benchmarks.service.samples import Results, run
from benchmarks.service.servers import ASGI, SERVICES, WSGI

ROUNDS, SECONDS = 2, 6.0
SERVERS = (*WSGI, *ASGI)
PACKAGES = (
    *("asyncpg", "django", "fastapi", "flask", "granian", "gunicorn", "httptools", "psycopg"),
    *("psycopg2-binary", "redis", "sqlalchemy", "uvicorn"),
)


def where(rounds: int, seconds: float) -> dict[str, Any]:
    """Return a description of the machine, and of the extent of the measurement."""
    return surroundings(*PACKAGES, rounds=rounds, seconds=seconds)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVICES))
    parser.add_argument(
        "--clients", nargs="+", type=int, metavar="N", help="how many, one after the other (100 to 1000)"
    )
    parser.add_argument(
        "--servers", nargs="+", metavar="SERVER", choices=SERVERS, default=SERVERS, help=", ".join(SERVERS)
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"under load ({SECONDS:g})")
    parser.add_argument(
        "--quick", action="store_true", help="one round of 1 s, 20 clients: an impression, not a result"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there, beside its other rows")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="measure nothing, print the tables of such a file"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in SERVICES]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(SERVICES)}")
    if options.quick:
        options.rounds, options.seconds, options.clients = 1, 1.0, [20]
    return options


def main() -> None:
    """Measure, or read what was measured, and print the tables; exit status 1 if a server failed."""
    options = _arguments()
    if options.markdown:
        results = Results(**json.loads(options.markdown.read_text()))
    else:
        raise_file_limit()
        here = where(options.rounds, options.seconds)
        names = options.names or SERVICES
        results = run(names, options.clients, options.servers, options.rounds, options.seconds, here)
    if options.json:
        results.save(options.json)
    print("\n" + markdown(results))
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
