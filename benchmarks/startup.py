"""Measures what Dhaga adds to the start of a process: `python -m benchmarks.startup`. An import, a program, and a run
of pytest that does not use Dhaga are each compared with the same without Dhaga.

All are started in turn, round by round. The figure is the CPU time of each process, because other work on the machine
disturbs it least. The minimum and the median are printed.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machine import surroundings

ROOT = Path(__file__).parents[1]
PATH = Path(__file__).parent / "results" / "startup.json"

IMPORT_TARGET = 1.5
"""`import dhaga` costs at most this many times the import of asyncio and Tornado's IOLoop, which Dhaga imports."""
PROGRAM_TARGET = 0.1
"""`python -m dhaga program.py` costs at most this many seconds more than `python program.py`."""
PYTEST_TARGET = 0.02
"""A run of pytest that does not use Dhaga costs at most this many seconds more if Dhaga is installed."""

COMMANDS = {
    "nothing": ["-c", "pass"],
    "import asyncio, tornado.ioloop": ["-c", "import asyncio, tornado.ioloop"],
    "import dhaga": ["-c", "import dhaga"],
    "program.py": ["program.py"],
    "-m dhaga program.py": ["-m", "dhaga", "program.py"],
    "pytest without the plugin": ["-m", "pytest", "-q", "-p", "no:dhaga", "test_nothing.py"],
    "pytest with the plugin": ["-m", "pytest", "-q", "test_nothing.py"],
}
"""For each command, by its name, the arguments of Python."""


def cpu_of(arguments: list[str], folder: str) -> float:
    """Run Python once. Returns: the CPU seconds of that process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # allow bytecode files, because the compiler is not measured
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, list[float]]:
    """Start each command once per round. Returns: the samples, without the first round, which fills the caches."""
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text("print('done')\n")
        Path(folder, "test_nothing.py").write_text("def test_nothing():\n    pass\n")
        for _ in range(rounds + 1):
            for name, arguments in COMMANDS.items():
                samples[name].append(cpu_of(arguments, folder))
    return {name: each[1:] for name, each in samples.items()}


def verdicts(samples: dict[str, list[float]]) -> list[tuple[str, float, float]]:
    """Return the claims about the minimum samples: a text, the figure, and its target."""
    least = {name: min(each) for name, each in samples.items()}
    nothing = least["nothing"]
    return [
        (
            "import dhaga, over the import of asyncio and tornado.ioloop",
            (least["import dhaga"] - nothing) / (least["import asyncio, tornado.ioloop"] - nothing),
            IMPORT_TARGET,
        ),
        ("-m dhaga, seconds more", least["-m dhaga program.py"] - least["program.py"], PROGRAM_TARGET),
        (
            "pytest, seconds more",
            least["pytest with the plugin"] - least["pytest without the plugin"],
            PYTEST_TARGET,
        ),
    ]


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="benchmarks.startup")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    samples = measure(options.rounds)
    for name, each in samples.items():
        print(f"{name:32} {min(each) * 1e3:6.0f} ms, median {statistics.median(each) * 1e3:6.0f} ms")
    for text, figure, target in verdicts(samples):
        print(f"{text}: {figure:.3f}{'' if figure <= target else f', above the target of {target}'}")
    where = surroundings(rounds=options.rounds)
    options.out.write_text(json.dumps({"where": where, "samples": samples}, indent=1) + "\n")


if __name__ == "__main__":
    main()
