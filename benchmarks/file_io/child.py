"""One round in a new process: ``python -m benchmarks.file_io.child DIRECTORY --blocks N --samples N``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import dhaga
from benchmarks.file_io import group_commit, latency, rocksdb_puts


def main() -> None:
    """Measure, and print the result as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.file_io.child", description="One round, as JSON.")
    parser.add_argument("directory", type=Path, help="an empty one, on the disk to be measured")
    parser.add_argument("--blocks", type=int, default=4, help="of each way, idle and busy in turn (4)")
    parser.add_argument("--samples", type=int, default=50, help="writes of a block (50)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each rate (0.5)")
    options = parser.parse_args()
    dhaga.spawn(int).join()  # from now on the main code parks, too
    found = {
        "waits": latency.measure(options.directory, options.blocks, options.samples),
        "commits": group_commit.measure(options.directory, options.seconds),
        "puts": rocksdb_puts.measure(options.directory, options.seconds),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # the parent process also gets the interrupt, and reports it
        sys.exit(130)
