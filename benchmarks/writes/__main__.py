"""One round in a process of its own: python -m benchmarks.writes DIRECTORY --blocks N --samples N --seconds S."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import dhaga
from benchmarks.writes import commits, latency, puts


def main() -> None:
    """Measure, and print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes", description="One round of file_io, as JSON.")
    parser.add_argument("directory", type=Path, help="an empty one, on the disk to be measured")
    parser.add_argument("--blocks", type=int, default=4, help="of each way, idle and busy in turn (4)")
    parser.add_argument("--samples", type=int, default=50, help="writes of a block (50)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each rate (0.5)")
    options = parser.parse_args()
    dhaga.spawn(int).join()  # from now on the main code parks, too
    found = {
        "waits": latency.measure(options.directory, options.blocks, options.samples),
        "commits": commits.measure(options.directory, options.seconds),
        "puts": puts.measure(options.directory, options.seconds),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # whoever has started it is told, too, and says so
        sys.exit(130)
