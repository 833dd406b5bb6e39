"""Simulation, frontrun and interleave-test on the models of their documentation: tries and seconds until a defect.

All run in turn, each model and tool in a new process with the package imported. A try is a run of the model. The tools
draw different schedules in each round, but frontrun's systematic search is the same each time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from typing import Any

from .environments import ROOT, environment_of, version_here
from .rival_models import MODELS

REQUIRES = ["frontrun==0.7.0", "interleave-test==0.1.0", "python-socketio==5.16.3"]

ROUNDS = 5

WAYS = [
    ("frontrun", "dpor"), ("frontrun", "random"), ("interleave-test", "random"), ("interleave-test", "pct"),
    ("simulation", "lines"), ("simulation", "instructions"),
]  # fmt: skip
"""Each tool, and its strategy; for the simulation, the places where it interrupts threads."""

SECONDS = 120
"""Maximum number of seconds of a tool for all rounds of a model."""


def measure() -> dict[str, Any]:
    """Run each model with each tool. Raises: NoEnvironment."""
    python = environment_of(REQUIRES, version_here())
    found: dict[str, Any] = {}
    for name in MODELS:
        for tool, kind in WAYS:
            found.setdefault(name, {})[f"{tool} {kind}"] = run(python, tool, kind, name)
            print(name, tool, kind, json.dumps(found[name][f"{tool} {kind}"]), flush=True)
    return {"releases": REQUIRES, "rounds": ROUNDS, "models": found}


def run(python: Any, tool: str, kind: str, name: str) -> dict[str, Any]:
    command = [str(python), "-m", "benchmarks.simulation.rival_child", tool, kind, name, str(ROUNDS)]
    if tool == "frontrun":
        command = [str(python.parent / "frontrun"), *command]
    try:
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"not ended after {SECONDS} s"}
    if ended.returncode:
        return {"error": ended.stderr.strip().splitlines()[-1][:300]}
    rounds = json.loads(ended.stdout.splitlines()[-1])
    hits = [each for each in rounds if each["tries"] is not None]
    result: dict[str, Any] = {"found": len(hits), "of": len(rounds)}
    if hits:
        result["tries"] = statistics.median(each["tries"] for each in hits)
        for key in ("seconds", "cpu"):
            result[key] = round(statistics.median(each[key] for each in hits), 3)
    return result
