"""The command line of `benchmarks.rate_model`: first the options of the upstreams, then the way and its options."""

import argparse
import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.rate_model.latency_spec import duration, latencies
from benchmarks.rate_model.run import Plan

MOST_REQUESTS = 10_000_000  # a run needs 8 bytes per request, and about 100 during the statistics
MOST_PROCESSES = 100  # of real upstreams
TELLS = """\
%(prog)s --name hangs --rate 1000 --num-requests 5000 --latency "20ms*9,30s" dhagas
%(prog)s --rate 2000 --num-requests 10000 --latency "20ms*10" --real threads --threads 50

Requests that a way cannot keep up with pile up, up to 10 KB each: that is what an open loop shows.
`python -m benchmarks.tables rate_model` runs all rows in all ways, some of them in three rounds, within four minutes.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rate_model",
        description="Let requests arrive at a fixed rate, and see how late their answers are.",
        epilog=TELLS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--name", type=_name, default="rate-model", help="how the files begin that are written (rate-model)")
    add("--rate", type=_number(float, 0.1, 1e5), default=1000.0, metavar="N", help="arrivals a second (1000)")
    add("--num-requests", type=_number(int, 1, MOST_REQUESTS), metavar="N", help="arrivals in all (5 s of them)")
    add("--latency", type=_told(latencies), default="20ms*10", metavar="LIST", help="of each upstream (20ms*10)")
    add("--real", action="store_true", help="the upstreams are processes that answer over HTTP, not sleeps")
    add("--window", type=_told(duration), default="1s", help="over which a rate is taken (1s)")
    add("--tail", type=_told(duration), default="1s", help="after the last arrival in which answers still count (1s)")
    add("--output", type=Path, default=Path(), metavar="FOLDER", help="for NAME.json, NAME-rate.svg, NAME-latency.svg")
    ways = parser.add_subparsers(dest="way", required=True, metavar="threads | dhagas | gevent | asyncio")
    threads = ways.add_parser("threads", help="a fixed pool of OS threads takes requests from a queue")
    threads.add_argument(
        "--threads", type=_number(int, 1, 10_000), default=Plan.threads, metavar="N", help="in the pool (50)"
    )
    ways.add_parser("dhagas", help="a dhaga for each request")
    ways.add_parser("gevent", help="a greenlet of gevent's for each request")
    ways.add_parser("asyncio", help="a task for each request")
    parser.set_defaults(threads=Plan.threads)
    return parser


def read(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line. If it is wrong, end the program with a message."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.num_requests is None:
        options.num_requests = max(1, round(5 * options.rate))
    seconds = options.num_requests / options.rate
    if not 0 < options.window <= seconds * (1 + 1e-9):
        parser.error(
            f"no rate can be taken over {options.window:g} s of {seconds:g} s: more requests, or less --window"
        )
    if options.real and len(options.latency) > MOST_PROCESSES:
        parser.error(f"--real takes up to {MOST_PROCESSES} upstreams, each being a process")
    if options.output.exists() and not options.output.is_dir():
        parser.error(f"--output {options.output} is not a folder")
    if options.way == "gevent" and not find_spec("gevent"):
        parser.error("gevent is not installed: pip install gevent")
    return options


def _name(text: str) -> str:
    if not text or "/" in text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} cannot begin the name of a file")
    return text


def _number(kind: Callable[[str], float], least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a parser of numbers within bounds."""

    def number(text: str) -> float:
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and {most:g}")
        return value

    return number


def _told(reads: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a parser that raises ArgumentTypeError with the message of the ValueError that ``reads`` raises."""

    def told(text: str) -> Any:
        try:
            return reads(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return told
