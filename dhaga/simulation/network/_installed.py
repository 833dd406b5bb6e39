"""Replaces the real network with the network of a simulation."""

from __future__ import annotations

from typing import Any

from ..._kernel import hooks, outside
from .._base.here import here
from .._base.undoing import Undoing
from . import _names, _sockets
from ._network import Network


def install_network(network: Network, undoing: Undoing) -> None:
    """Use a network until the calls of ``undoing`` are made."""
    undoing.callback(network.end)
    undoing.set(hooks, "on_spawn", noting_spawns(network))
    undoing.set(outside, "names_of_caller", names_of_caller)
    undoing.set(outside, "new_socket", _sockets.new_socket)
    undoing.set(outside, "sockets", _sockets.Calls)


def noting_spawns(network: Network) -> Any:
    """Return a listener of spawns that gives each dhaga its host, besides the present one."""
    former = hooks.on_spawn

    def note_spawn(dhaga: Any) -> None:
        network.hosts.note_spawn(dhaga)
        if former is not None:
            former(dhaga)

    return note_spawn


def names_of_caller() -> Any:
    """Return the look-ups of the simulation, in its OS thread."""
    return None if here() is None else _names
