"""The samples of `benchmarks.pipeline`: the loads of each server's plain page, and of its page with a backend call."""

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
"""The path of each page."""


@dataclass
class Samples:
    """The samples, one per round: of each rival's pages, and of the calls of a bare loop."""

    rivals: dict[str, dict[Page, list[load.Load]]]
    bare: list[dict[str, float]]

    def of(self, rival: Rival, page: Page, key: str = "rate") -> list[float]:
        """Return one figure of a rival's page, round by round."""
        return [sample[key] for sample in self.rivals.get(rival.name, {}).get(page, [])]


@dataclass(frozen=True)
class Effort:
    """The settings of the measurement."""

    rounds: int = 3
    turns: int = 3
    """Turns of each page in a round. The pages alternate, so that other programs slow down both. Medians count."""

    seconds: float = 1.0  # of a turn
    warm_up: float = 1.0  # seconds
    connections: int = 128
    """Connections of wrk. With calls of 2 ms they allow 64,000 pages a second, so the server's CPU is the limit."""

    delay: float = 2.0  # ms until the backend answers


QUICK = Effort(rounds=1, turns=1, seconds=0.2, warm_up=0.0)


class MachineUnfit(RuntimeError):
    """Raised if this machine cannot run the benchmark; the text says what is missing."""


def pinned() -> tuple[int, int]:
    """Return the CPU of the servers, and the CPU of load and backend. Raises: MachineUnfit."""
    found = cpus()
    if found is None:
        raise MachineUnfit("two CPUs are needed, one for the server, the other for wrk and the backend")
    for program in ("wrk", "taskset"):
        if shutil.which(program) is None:
            raise MachineUnfit(f"{program} is needed, and not installed")
    return found


def installed(rivals: Iterable[Rival]) -> list[Rival]:
    """Return the rivals whose packages are installed."""
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
    """Load the pages of one server in turns. Returns: for each page, the medians of its turns."""
    if effort.warm_up:
        load.wrk(server, effort.connections, effort.warm_up, cpu, PAGES["call"])
    turns = [{page: turn(server, page, backend, effort, cpu) for page in PAGES} for _ in range(effort.turns)]
    return {page: medians([found[page] for found in turns]) for page in PAGES}


def medians(loads: Sequence[load.Load]) -> load.Load:
    """Return the median of each figure."""
    return {key: statistics.median(found[key] for found in loads) for key in loads[0]}


def turn(server: Server, page: Page, backend: Backend, effort: Effort, cpu: int) -> load.Load:
    """Load one page. Raises: RuntimeError if a request was not answered, or an answer lacked its backend call."""
    server.ask(PAGES["call"])  # returns after earlier calls, whose clients have gone
    calls, before, began = backend.calls(), backend.cpu(), monotonic()
    found = load.wrk(server, effort.connections, effort.seconds, cpu, PAGES[page])
    found["backend"] = (backend.cpu() - before) / (monotonic() - began)
    made, pages = backend.calls() - calls - 1, int(found["requests"])
    if found["errors"]:
        raise RuntimeError(f"{server.rival}: {found['errors']:.0f} pages of {pages:,} were not answered")
    if (made < pages) if page == "call" else made:
        raise RuntimeError(f"{server.rival}: {made:,} calls of the backend for {pages:,} pages")
    return found
