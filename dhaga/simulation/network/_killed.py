"""The sockets of a killed host (their peers see resets), and other closed sockets."""

from __future__ import annotations

import contextlib
from operator import attrgetter
from typing import TYPE_CHECKING

from ..._kernel import originals
from ._end import CLOSED, CONNECTED, End

if TYPE_CHECKING:
    from ._hosts import Host
    from ._network import Network


def close_sockets(network: Network, host: Host) -> None:
    """Close all sockets of a host, the oldest first."""
    for end in sorted(network.ends.values(), key=attrgetter("number")):
        if end.host is host:
            close_objects(end)
            end.hung_up = end.ended = True
            if end.state is CONNECTED and end.outgoing is not None:
                end.outgoing.send_reset()
                network.close(end)
            elif end.state is not CLOSED:
                network.close_unconnected(end)
            else:
                network.close(end)


def close_objects(end: End) -> None:
    """Close the socket objects of a killed program, because the program can no longer close them."""
    for sock in list(end.objects):
        with contextlib.suppress(OSError):
            fd = sock.detach()
            if fd >= 0:
                originals.close(fd)


def discard_closed(network: Network) -> None:
    """Among the sockets whose connections are over, discard those that the program has closed."""
    for end in [each for each in network.over if not each.is_open()]:
        network.over.remove(end)
        network.ends.pop(end.inode, None)
