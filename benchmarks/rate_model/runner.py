"""Performs runs in new processes, and returns their figures."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

from benchmarks.machine import cpus
from benchmarks.rate_model.run import Plan

WAYS = ("threads", "dhagas", "gevent", "asyncio")
PATIENCE = 120.0  # seconds that a process may take longer than planned

Figures = dict[str, Any]
"""See `run_statistics.py`."""


@contextmanager
def upstreams_of(plan: Plan, real: bool) -> Iterator[Plan]:
    """Yield the plan with the ports of its upstreams: if ``real``, each is a new process. Raises: RuntimeError."""
    if not real:
        yield plan
        return
    command = [sys.executable, "-m", "benchmarks.rate_model.upstreams", *map(repr, plan.latencies)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        _keep_apart(process, 1)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the upstreams did not start: their own words are above")
        yield replace(plan, ports=json.loads(line))  # at the end of the block their input is closed, which ends them


def _keep_apart(process: "subprocess.Popen[str]", side: int) -> None:
    """Pin a process to the CPU of the proxy (``side`` 0) or to the CPU of the upstreams (1), if there are two CPUs."""
    if pinned := cpus():
        os.sched_setaffinity(process.pid, {pinned[side]})


@contextmanager
def _running(way: str, plans: Sequence[Plan], window: float) -> Iterator["subprocess.Popen[str]"]:
    """Start a new process that performs plans one after another, and kill it at the end of the block."""
    asked = (json.dumps(asdict(plan)) for plan in plans)
    command = [sys.executable, "-m", "benchmarks.rate_model.child", way, repr(window), *asked]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            if any(plan.ports for plan in plans):
                _keep_apart(process, 0)
            yield process
        finally:
            process.kill()


def _figures(way: str, process: "subprocess.Popen[str]", seconds: float) -> list[Figures]:
    """Return the figures that a process prints. Raises: RuntimeError with the last output of a process that fails."""
    try:
        out, words = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{way}: the run did not end in {seconds:.0f} s") from None
    if process.returncode:
        raise RuntimeError(f"{way}: {words.strip().rpartition(chr(10))[2] or f'exit status {process.returncode}'}")
    return list(map(json.loads, out.splitlines()))


def at_once(ways: Sequence[str], plans: Sequence[Plan], window: float) -> dict[str, list[Figures]]:
    """Perform the same plans in several ways at the same time, each in a new process. Raises: RuntimeError."""
    seconds = sum(plan.count / plan.rate + plan.tail for plan in plans) + PATIENCE
    with ExitStack() as stack:
        processes = {way: stack.enter_context(_running(way, plans, window)) for way in ways}
        return {way: _figures(way, process, seconds) for way, process in processes.items()}


def in_turn(ways: Sequence[str], plan: Plan, window: float) -> dict[str, Figures]:
    """Perform one plan in several ways, one after another, each in a new process. Raises: RuntimeError."""
    return {way: at_once([way], [plan], window)[way][0] for way in ways}
