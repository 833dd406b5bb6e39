"""The replacement of the real network with the network of a simulation."""

from __future__ import annotations

from typing import Any

from ..._kernel import hooks, outside
from .._base.here import here
from .._base.undoing import Undoing
from . import _names, _sockets
from ._network import Network


def install_network(network: Network, undoing: Undoing) -> None:
    """Install a simulated network. The calls of ``undoing`` remove it again."""
    undoing.callback(network.end)
    undoing.set(hooks, "on_spawn", noting_spawns(network))
    undoing.set(outside, "names_of_caller", names_of_caller)
    undoing.set(outside, "new_socket", _sockets.new_socket)
    undoing.set(outside, "sockets", _sockets.Calls)


def noting_spawns(network: Network) -> Any:
    """Return a spawn hook that notes the host of each new dhaga, and then calls the former hook."""
    former = hooks.on_spawn

    def note_spawn(dhaga: Any) -> None:
        network.hosts.note_spawn(dhaga)
        if former is not None:
            former(dhaga)

    return note_spawn


def names_of_caller() -> Any:
    """Return the module with the simulated name look-ups; None outside the simulation's OS thread."""
    return None if here() is None else _names
