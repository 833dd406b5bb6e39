"""Soak: whole services under trouble for minutes, with invariants checked all along: ``python -m tests.soak``.

Echo, HTTP, TLS, queues, offloaded calls and scopes, all in one process, on two schedulers and a guest of an event loop;
dhagas are cancelled, connections are cut, reset and half-closed, readers are slow, descriptors run out, signals come.
It fails at the first broken invariant, and in the end if a dhaga, timer, descriptor or thread is left, or memory grows.
"""

from __future__ import annotations

import argparse
import os
import random

from tests.soak.attempts import Scenario
from tests.soak.echo import Echo
from tests.soak.offload import Offload
from tests.soak.queues import Queues
from tests.soak.run import Run
from tests.soak.scopes import Scopes
from tests.soak.tls import TLS
from tests.soak.web import Web

SCENARIOS: dict[str, type[Scenario]] = {kind.name: kind for kind in (Echo, Web, TLS, Queues, Offload, Scopes)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Run services under trouble.")
    parser.add_argument("--seconds", type=float, default=600, metavar="N", help="how long, 600 unless given")
    parser.add_argument("--seed", type=int, metavar="N", help="of all choices; a random one unless given")
    names = ", ".join(SCENARIOS)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="SCENARIO", help=f"some of {names}")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds < float("inf"):
        parser.error(f"--seconds takes a number above 0, not {options.seconds}")
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"soak of {options.seconds:g} s: repeat it with --seed {seed}", flush=True)
    try:
        run = Run([SCENARIOS[name] for name in options.only or SCENARIOS], options.seconds, seed)
        run.run()
    except KeyboardInterrupt:
        print(f"== soak interrupted, seed {seed}", flush=True)
        os._exit(130)  # what runs in other threads would be waited for
    return 1 if run.ledger.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
