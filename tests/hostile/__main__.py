"""Hostile clients, each beside an ordinary one whose p99 is printed: ``python -m tests.hostile``, ``make hostile``."""

from __future__ import annotations

import argparse

from tests.hostile.measure import measure
from tests.hostile.targets import TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description="Attack servers, and ask them.")
    parser.add_argument("--seconds", type=float, default=5, metavar="N", help="of each attack, 5 unless given")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), help="some of the servers")
    parser.add_argument("--attacks", nargs="+", metavar="NAME", help="some of the attacks")
    options = parser.parse_args()
    failed = 0
    for name in options.targets:
        target = TARGETS[name]()
        for attack in target.attacks:
            if options.attacks and attack not in options.attacks:
                continue
            try:
                measured = measure(target, attack, options.seconds)
                print(measured, flush=True)
                failed += measured.fails
            except AssertionError as error:
                print(f"{name:10} {attack:20} FAILS: {error}", flush=True)
                failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main())
