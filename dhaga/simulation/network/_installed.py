"""Replaces the real network with the network of a simulation."""

from __future__ import annotations

import sys
from typing import Any

from ..._kernel import hooks
from ...monkey._rebind import PatchLog
from .._undoing import Undoing
from . import _names, _sockets
from ._network import Network


def install_network(network: Network, undoing: Undoing) -> None:
    """Use a network until the calls of ``undoing`` are made."""
    undoing.callback(network.end)
    log = PatchLog()
    undoing.callback(log.undo)
    rebind_in_dhaga(log)
    log.set(hooks, "on_spawn", noting_spawns(network))
    _sockets.install()
    undoing.callback(_sockets.uninstall)
    _sockets.use(network)
    undoing.callback(_sockets.use, None)


def noting_spawns(network: Network) -> Any:
    """Return a listener of spawns that gives each dhaga its host, besides the present one."""
    former = hooks.on_spawn

    def note_spawn(dhaga: Any) -> None:
        network.hosts.note_spawn(dhaga)
        if former is not None:
            former(dhaga)

    return note_spawn


def rebind_in_dhaga(log: PatchLog) -> None:
    """Replace the functions that Dhaga's own modules have bound: a patch leaves these modules out."""
    replaced = {id(real): ours for real, ours in _names.IN_DHAGA}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "dhaga" and module is not _names:
            for attribute, value in list(vars(module).items()):
                if id(value) in replaced:
                    log.set(module, attribute, replaced[id(value)])


_names.use(_sockets.network_of_caller)
