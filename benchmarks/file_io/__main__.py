"""A write-ahead log beside busy tasks: `python -m benchmarks.file_io`.

A durable write of 4 KB is made inline, through the shared pool, in a dedicated thread, and in that thread for a HIGH
dhaga. How long does its caller wait on an idle scheduler and on a busy one? On a busy scheduler, 100 dhagas compute for
50 µs between two yields, and other dhagas keep the shared pool busy. Also measured are the log's group commit, and puts
of RocksDB, inline and offloaded. Each round is a new process, in which short blocks of all ways take turns, idle and
busy, so that all have the same noise of the disk. Three rounds take about two and a half minutes.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from benchmarks.file_io.disk import IN_MEMORY, default, file_system
from benchmarks.file_io.notes import notes
from benchmarks.file_io.report import STATES, all_waits, claims, tables
from benchmarks.file_io.write_paths import DEDICATED, INLINE, LOG, PLAIN_INTERVAL, SHARED, TWO_CALLS, URGENT
from benchmarks.machine import surroundings
from benchmarks.tables.charts import COLOURS, Chart, drawn
from benchmarks.tables.outcome import Outcome, Tell
from benchmarks.tables.standalone import show_tables

TITLE = "A write-ahead log beside busy tasks"
STORY = (
    "A dhaga makes durable writes while others compute. Published: file writes on the runtime, inline or through its "
    "own asynchronous files, slow down and scatter under load, a dedicated thread keeps them flat; and puts into a "
    "key-value store through a pool of threads are 46 % slower than inline."
)
FULL = {"rounds": 3, "blocks": 10, "samples": 50, "seconds": 0.3}
QUICK = {"rounds": 1, "blocks": 1, "samples": 8, "seconds": 0.02}
PATIENCE = 300
"""Seconds after which a hanging round is killed."""


def measure(quick: bool, tell: Tell) -> Outcome:
    """Run all rows; with ``quick``, at the smallest size."""
    return measured(QUICK if quick else FULL, default(), tell)


def measured(effort: dict[str, Any], folder: Path, tell: Tell) -> Outcome:
    """Run the rounds, with files in a new subfolder of ``folder``."""
    knobs = {**effort, "file system": file_system(folder)}
    rounds = []
    for number in range(effort["rounds"]):
        tell(f"round {number + 1} of {effort['rounds']}, on {knobs['file system']}")
        rounds.append(_round(effort, folder))
    where = surroundings("rocksdict", **knobs)
    found = notes(rounds)
    if knobs["file system"] in IN_MEMORY:
        found.append(f"{knobs['file system']} is no disk: what is said of durable writes does not hold here.")
    return Outcome("file_io", TITLE, STORY, where, knobs, _samples(rounds), claims(rounds), tables(rounds), found)


def _round(effort: dict[str, Any], folder: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="dhaga-file-io-", dir=folder) as directory:
        options = [f"--{name}={effort[name]}" for name in ("blocks", "samples", "seconds")]
        command = [sys.executable, "-m", "benchmarks.file_io.child", directory, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise RuntimeError(f"a round has failed, with exit status {done.returncode}: see above")
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _samples(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the samples to save: waits are converted to whole microseconds, and all else is unchanged."""
    ways = [way for way in rounds[0]["waits"] if way != "nobody"]
    waits = {
        way: {state: [round(wait * 1e6) for wait in all_waits(rounds, way, state)] for state in STATES} for way in ways
    }
    turns = {way: [each["waits"][way]["busy"]["turns"] for each in rounds] for way in rounds[0]["waits"]}
    rest = {what: [each[what] for each in rounds] for what in ("commits", "puts")}
    return {"waits, µs": waits, "others' turns a second": turns, **rest}


# ---- pictures


def draw(outcome: Outcome) -> list[Chart]:
    """Draw two violin plots: one of the ways, and one of the measures against waits for the interpreter lock."""
    waits = outcome.samples["waits, µs"]
    return [
        _violins("What the caller of a durable write waits", waits, (INLINE, SHARED, DEDICATED, URGENT, LOG)),
        _violins("Without what was done about the interpreter lock", waits, (URGENT, TWO_CALLS, PLAIN_INTERVAL)),
    ]


def _violins(caption: str, waits: dict[str, dict[str, list[int]]], ways: tuple[str, ...]) -> Chart:
    def plot(axes: Any) -> None:
        for shift, state, colour in ((-0.2, "idle", COLOURS["raw"]), (0.2, "busy", COLOURS["dhaga"])):
            logs = [[math.log10(max(wait, 1) / 1e3) for wait in waits[way][state]] for way in ways]
            places = [number + shift for number in range(len(ways))]
            violins = axes.violinplot(logs, places, widths=0.38, showmedians=True, showextrema=True)
            for body in violins["bodies"]:
                body.set(facecolor=colour, alpha=0.7)
            for part in ("cmedians", "cbars", "cmins", "cmaxes"):
                violins[part].set(color=colour, linewidth=1)
            axes.plot([], [], color=colour, linewidth=6, label=state)
        axes.set_xticks(range(len(ways)), [textwrap.fill(way, 12) for way in ways])
        low, high = (math.floor(each) for each in axes.get_ylim())
        axes.set_yticks(range(low, high + 1), [f"{10.0**power:g}" for power in range(low, high + 1)])
        axes.set_ylabel("ms")
        axes.legend(title="schedulers", ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))

    return drawn(caption, plot)


# ---- the command


def main() -> None:
    """Measure and print; write the JSON where `--results` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.file_io", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size: checks that all of it runs")
    parser.add_argument("--rounds", type=_at_least_one, help=f"processes, one after the other ({FULL['rounds']})")
    parser.add_argument("--blocks", type=_at_least_one, help=f"of each way in a round ({FULL['blocks']})")
    parser.add_argument("--folder", type=Path, default=default(), help="on the disk to be measured (%(default)s)")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write file_io.json there")
    options = parser.parse_args()
    if not options.folder.is_dir() or not os.access(options.folder, os.W_OK):
        parser.error(f"--folder {options.folder}: there is no such folder, or nothing can be written to it")
    effort = dict(QUICK if options.quick else FULL)
    effort.update((name, value) for name in ("rounds", "blocks") if (value := getattr(options, name)))
    try:
        outcome = measured(effort, options.folder, lambda text: print(text, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        sys.exit(130)
    show_tables(outcome)
    print()
    for claim in outcome.claims:
        print(f"{claim.what}: {claim.value:.2f}, to reach {claim.bound}: {'yes' if claim.reached else 'no'}")
    for note in outcome.notes:
        print(f"\n{note}")
    if options.results:
        print(f"\n{outcome.save(options.results)}")


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


if __name__ == "__main__":
    main()
