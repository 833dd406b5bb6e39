"""The samples of `benchmarks.pipeline`: each server loaded at its plain page, and at the one that needs a call."""

import shutil
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import monotonic
from typing import Literal

from benchmarks.machine import cpus
from benchmarks.pipeline import raw_client
from benchmarks.pipeline.backend import Backend, answering
from benchmarks.pipeline.servers import Rival, serving
from benchmarks.web import load
from benchmarks.web.servers import Server

Page = Literal["plain", "call"]
PAGES: dict[Page, str] = {"plain": "", "call": "call"}
"""Each page's path."""


@dataclass
class Samples:
    """What was measured, one sample a round: of each rival's pages, and of calls by a bare loop."""

    rivals: dict[str, dict[Page, list[load.Load]]]
    bare: list[dict[str, float]]

    def of(self, rival: Rival, page: Page, key: str = "rate") -> list[float]:
        """Return one quantity of a rival's page, round by round."""
        return [sample[key] for sample in self.rivals.get(rival.name, {}).get(page, [])]


@dataclass(frozen=True)
class Effort:
    """What can be set."""

    rounds: int = 3
    turns: int = 3
    """Of each page in a round. They alternate, so that a neighbour on the machine takes from both; medians count."""

    seconds: float = 1.0  # of a turn
    warm_up: float = 1.0  # seconds
    connections: int = 128
    """Of wrk. At 2 ms a call they allow 64,000 pages a second, more than any server makes: its CPU is the limit."""

    delay: float = 2.0  # ms until the backend answers


QUICK = Effort(rounds=1, turns=1, seconds=0.2, warm_up=0.0)


class MachineUnfit(RuntimeError):
    """This machine cannot measure; the text says what it lacks."""


def pinned() -> tuple[int, int]:
    """Return the CPU of the servers, and that of load and backend. Raises: MachineUnfit."""
    found = cpus()
    if found is None:
        raise MachineUnfit("two CPUs are needed, one for the server, the other for wrk and the backend")
    for program in ("wrk", "taskset"):
        if shutil.which(program) is None:
            raise MachineUnfit(f"{program} is needed, and not installed")
    return found


def installed(rivals: Iterable[Rival]) -> list[Rival]:
    """Return those whose packages are there."""
    return [rival for rival in rivals if find_spec(rival.needs) is not None]


def sampled(rivals: Sequence[Rival], effort: Effort, tell: Callable[[str], None]) -> Samples:
    """Measure, the rivals in turn within each round. Raises: MachineUnfit, RuntimeError, SubprocessError."""
    ours, others = pinned()
    samples = Samples({rival.name: {page: [] for page in PAGES} for rival in rivals}, [])
    with answering(effort.delay, others) as backend:
        for number in range(1, effort.rounds + 1):
            for rival in rivals:
                tell(f"round {number} of {effort.rounds}: {rival.name}")
                with serving(rival, backend, ours) as server:
                    for page, found in loaded(server, backend, effort, others).items():
                        samples.rivals[rival.name][page].append(found)
            tell(f"round {number} of {effort.rounds}: a bare loop")
            samples.bare.append(raw_client.measure(backend, effort.connections, effort.seconds, ours))
    return samples


def loaded(server: Server, backend: Backend, effort: Effort, cpu: int) -> dict[Page, load.Load]:
    """Load the pages of one server in turns. Returns: for each, the medians of its turns."""
    if effort.warm_up:
        load.wrk(server, effort.connections, effort.warm_up, cpu, PAGES["call"])
    turns = [{page: turn(server, page, backend, effort, cpu) for page in PAGES} for _ in range(effort.turns)]
    return {page: medians([found[page] for found in turns]) for page in PAGES}


def medians(loads: Sequence[load.Load]) -> load.Load:
    """Return the median of each quantity."""
    return {key: statistics.median(found[key] for found in loads) for key in loads[0]}


def turn(server: Server, page: Page, backend: Backend, effort: Effort, cpu: int) -> load.Load:
    """Load one page. Raises: RuntimeError if not each was answered, or not each with a call of the backend."""
    server.ask(PAGES["call"])  # it stands in line behind the calls for clients that have left
    calls, before, began = backend.calls(), backend.cpu(), monotonic()
    found = load.wrk(server, effort.connections, effort.seconds, cpu, PAGES[page])
    found["backend"] = (backend.cpu() - before) / (monotonic() - began)
    made, pages = backend.calls() - calls - 1, int(found["requests"])
    if found["errors"]:
        raise RuntimeError(f"{server.rival}: {found['errors']:.0f} pages of {pages:,} were not answered")
    if (made < pages) if page == "call" else made:
        raise RuntimeError(f"{server.rival}: {made:,} calls of the backend for {pages:,} pages")
    return found
