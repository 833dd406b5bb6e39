"""The simulation that runs in this process. A process runs at most one simulation at a time, in one OS thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._kernel import originals

if TYPE_CHECKING:
    from .._world.world import Simulation
    from ..network._network import Network

running: Simulation | None = None
thread = 0
"""The ident of the OS thread in which the simulation runs."""


def begin(simulation: Simulation) -> None:
    """Set the simulation of the calling OS thread."""
    global running, thread
    running, thread = simulation, originals.get_ident()


def end() -> None:
    global running
    running = None


def here() -> Simulation | None:
    """Return the simulation of the calling OS thread, or None outside a simulation."""
    return running if running is not None and thread == originals.get_ident() else None


def network_of_caller() -> Network | None:
    """Return the simulated network of the calling OS thread, or None outside a simulation."""
    simulation = here()
    return None if simulation is None else simulation.network


def found_network() -> Network:
    """Return the network of the running simulation. From: the OS thread of the simulation."""
    assert running is not None
    return running.network
