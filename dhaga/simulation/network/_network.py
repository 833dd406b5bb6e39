"""``Network``: the hosts, sockets and wires of one simulation, and what happens on them when.

The network has an epoll of its own over its ends of all socketpairs, which is one handler of the scheduler's loop.
What arrives within one tick is delivered by one call of the loop, in the order of the sends. So what the program can
see is in the same order in each run: sockets become ready only by these calls, and by the program's own.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..._kernel import originals
from ..._kernel.process.virtual_clock import VirtualClock
from .._base.errors import NotSimulated
from .._base.part import Part
from .._base.ranges import is_number
from ._datagrams import Datagrams
from ._end import (
    ANSWERED,
    CLOSED,
    CONNECTED,
    CONNECTING,
    ENDS,
    FAILED,
    HANG_UP,
    LISTENING,
    READS,
    WRITES,
    Address,
    End,
)
from ._host_clock import WallClock, check_clock
from ._hosts import ANY, Host, Hosts, is_loopback
from ._killed import close_sockets
from ._link import Link, check_settings, drawn_link, drawn_local_link, drawn_tick
from ._listening import Attempt, abandon_backlog
from ._partition import Pair, Partition, pairs_between
from ._pauses import Pauses
from ._ports import Ports

if TYPE_CHECKING:
    from .._schedule.run import Run
    from ..disk import Disks
    from ._faults import Plan

BATCH = 1024


class Network(Part):
    """The network of one simulation."""

    name = "the network"
    draws = "network"
    disks: Disks

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        super().__init__(seed, clock)
        self.default_clock = WallClock()
        self.hosts = Hosts(self)
        self.default_link = drawn_link(self.draw)
        self.local_link = drawn_local_link(self.draw)
        self.tick = drawn_tick(self.draw)
        self.pauses = Pauses(self)
        self.links: dict[Pair, Link] = {}
        self.partitions: list[Partition] = []
        self.blocked: frozenset[Pair] = frozenset()
        self.ends: dict[int, End] = {}
        self.by_wire_fd: dict[int, End] = {}
        self.number = 0
        self.calls: dict[float, list[tuple[Callable[..., object], tuple[Any, ...]]]] = {}
        self.ports = Ports(self)
        self.datagrams = Datagrams(self)
        self.epoll: Any = None
        self.sleeping: list[Plan] = []
        self.allows_real = False

    def __repr__(self) -> str:
        return f"<Network of {len(self.hosts.by_name)} hosts, {len(self.ends)} sockets>"

    # ---- begin and end

    def end(self) -> None:
        """Release all fds of the network."""
        for end in list(self.ends.values()):
            end.wire.close()
        for backlog in [end.backlog for end in self.ends.values() if end.backlog is not None]:
            for each in backlog.ends:
                originals.close(each.fd)
        self.ends.clear()
        self.by_wire_fd.clear()
        if self.epoll is not None:
            self.epoll.close()

    def start_watching(self) -> None:
        """Watch the sockets, from the first one on. Raises: NotSimulated on other systems than Linux."""
        if originals.epoll is None:
            raise NotSimulated("the network is simulated on Linux only: give the program a socketpair instead")
        self.epoll = originals.epoll()
        self.scheduler.loop.add_reader(self.epoll.fileno(), self.collect)

    def note_arrival(self, wire: Any, what: str) -> None:
        self.tell(f"brings {wire.target.name} {what} from {wire.source.name}")

    # ---- time

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call at a time of the virtual clock, rounded up to the tick."""
        moment = math.ceil(time / self.tick) * self.tick
        calls = self.calls.get(moment)
        if calls is None:
            calls = self.calls[moment] = []
            self.scheduler.loop.call_at(moment, self.make_calls, moment)
        calls.append((call, arguments))

    def make_calls(self, moment: float) -> None:
        for call, arguments in self.calls.pop(moment):
            try:
                call(*arguments)
            except Exception as error:
                self.run.fail(error)

    def note_activity(self) -> None:
        """Plan the faults again that have waited for the program to do something."""
        plans, self.sleeping = self.sleeping, []
        for plan in plans:
            plan.plan_next()

    def next_moment(self) -> float | None:
        """Return when something happens next on the network."""
        return min(self.calls, default=None)

    def begin(self, run: Run, scheduler: Any) -> None:
        super().begin(run, scheduler)
        run.pauses = self.pauses

    # ---- sockets

    def new_end(self, host: Host, family: int, kind: int, proto: int) -> End:
        """Make a socket of a host."""
        if self.epoll is None:
            self.start_watching()
        self.note_activity()
        self.number += 1
        end = End(self.number, host, family, kind, proto)
        self.ends[end.inode] = self.by_wire_fd[end.wire_fd] = end
        self.epoll.register(end.wire_fd, READS)
        return end

    def watch(self, end: End, writable: bool) -> None:
        """Watch whether an end can be read; with ``writable``, also whether it can be written."""
        if end.state is not CLOSED:
            self.epoll.modify(end.wire_fd, READS | WRITES if writable else READS)

    def collect(self) -> None:
        """Collect the bytes that the program has sent, from the sockets in order of their numbers. From: the loop."""
        self.note_activity()
        while found := self.epoll.poll(0, BATCH):
            ends = [(self.by_wire_fd.get(fd), events) for fd, events in found]
            for _, end, events in sorted((end.number, end, events) for end, events in ends if end is not None):
                if end.state is not CLOSED:
                    self.on_events(end, events)

    def on_events(self, end: End, events: int) -> None:
        end.ended = end.ended or bool(events & ENDS)
        end.hung_up = end.hung_up or bool(events & HANG_UP)
        if events & WRITES:
            self.on_writable(end)
        if not end.is_stream:
            self.datagrams.collect(end)
        elif end.state is CONNECTED:
            if end.outgoing is not None and end.hung_up and end.resets_on_close():
                end.outgoing.send_reset()
            elif end.outgoing is not None:
                end.outgoing.collect()
        elif end.hung_up:
            self.close_unconnected(end)
        if end.hung_up and end.state is not CLOSED and (end.outgoing is None or end.outgoing.finished):
            self.close(end)

    def on_writable(self, end: End) -> None:
        if not end.is_stream:
            self.datagrams.refill(end)
        elif end.outgoing is not None and end.outgoing.other_way is not None:
            end.outgoing.other_way.writable()

    def close_unconnected(self, end: End) -> None:
        """Close a socket that listens, connects, or has never been connected."""
        if end.backlog is not None:
            self.ports.stop_listening(end)
            abandon_backlog(self, end.backlog)
        elif end.state is ANSWERED and end.outgoing is not None:
            end.outgoing.send_reset()
        self.close(end)

    def close_unaccepted(self, end: End) -> None:
        """Reset a connection that its listener has not accepted."""
        originals.close(end.fd)
        if end.outgoing is not None and end.state is not CLOSED:
            end.outgoing.send_reset()
        self.close(end)

    def close(self, end: End) -> None:
        """Release our side of a socket."""
        self.datagrams.unbind(end)
        self.by_wire_fd.pop(end.wire_fd, None)
        if self.ends.get(end.inode) is end and end.hung_up:
            del self.ends[end.inode]
        end.close()

    def break_off(self, end: End) -> None:
        """Show the program a reset of its connection."""
        self.by_wire_fd.pop(end.wire_fd, None)
        end.break_off()

    def forget(self, end: End) -> None:
        """Break one end off without a word to the other one, which stays half-open until it sends."""
        if end.state is not CLOSED:
            self.break_off(end)

    def close_sockets(self, host: Host) -> None:
        """Close all sockets of a killed host."""
        close_sockets(self, host)

    # ---- connecting

    def host_at(self, end: End, address: Address) -> Host:
        """Return the host at an address, as an end sees it. Raises: NotSimulated."""
        if is_loopback(address[0]) or address[0] in ANY:
            return end.host
        found = self.hosts.by_address.get(address[0])
        if found is None:
            raise self.not_simulated(f"connect({address!r})", f"no host of the simulation has the address {address[0]}")
        return found

    def not_simulated(self, call: str, reason: str) -> NotSimulated:
        """Return the error of a call to the real world, with the ways out."""
        return NotSimulated(
            f"{call} is not simulated, as a real address answers when it likes, and {reason};\n"
            "run a fake of the other side on a host of that name (world.network.host(name, address).spawn(fake)), "
            "or put a stub in place of the client;\n"
            "or let real calls through: allow=['network'], on the command line --allow network, if they need not "
            "repeat with the seed"
        )

    def connect(self, end: End, address: Address) -> int:
        """Connect a socket, or begin to. Returns: an errno, EINPROGRESS for a stream. Raises: NotSimulated."""
        if end.state in (CONNECTING, ANSWERED):
            return errno.EALREADY
        if end.state is FAILED and end.error:
            return end.take_error()
        if end.is_stream and (end.state is CONNECTED or end.state is CLOSED):
            return errno.EISCONN
        if end.state is LISTENING:
            return errno.EISCONN
        host = self.host_at(end, address)
        if end.local is None:
            self.ports.bind(end)
        near = "127.0.0.1" if is_loopback(address[0]) or address[0] in ANY else end.host.address
        end.local = near, end.port
        end.remote = (near if address[0] in ANY else address[0]), address[1]
        if not end.is_stream:
            end.state = CONNECTED
            return 0
        Attempt(self, end, (end.remote[0] if host is end.host else host.address, address[1]))
        return errno.EINPROGRESS

    # ---- links and faults

    def host(self, name: str, address: str | None = None) -> Host:
        """Add a host; without an address it gets the next of 10.0.0.0/8. Raises: ValueError for a host twice."""
        return self.hosts.add(name, address)

    def alias(self, name: str, host: Host | str) -> None:
        """Give a host another name. Raises: ValueError."""
        self.hosts.alias(name, host)

    def link_between(self, one: Host, other: Host, local: bool) -> Link:
        """Return the link from one host to another."""
        return self.links.get((one, other)) or (self.local_link if local or one is other else self.default_link)

    def link(self, one: Host | str, other: Host | str, **settings: Any) -> Link:
        """Set the link between two hosts, in both directions; see ``Link``. Raises: ValueError."""
        pair = self.hosts.find(one), self.hosts.find(other)
        link = Link(**check_settings(settings))
        self.links[pair] = self.links[pair[1], pair[0]] = link
        return link

    def set_default(self, **settings: Any) -> Link:
        """Set the link of all hosts to each other, and of each to itself. Raises: ValueError."""
        self.default_link = self.local_link = Link(**check_settings(settings))
        return self.default_link

    def set_clocks(self, **settings: Any) -> None:
        """Set the wall clocks of all hosts, each by a draw of its own; see ``WallClock``. Raises: ValueError."""
        self.default_clock = check_clock(settings)
        for host in self.hosts.by_name.values():
            host.clock.begin(self.default_clock)

    def partition(self, *groups: Iterable[Host | str] | Host | str, one_way: bool = False) -> Partition:
        """Part groups of hosts from each other; one group from all other hosts.

        ``one_way``: only what the first group sends to the others is lost. Raises: ValueError.
        """
        return Partition(
            self, pairs_between([self.group(each) for each in groups], self.hosts.by_name.values(), one_way)
        )

    def group(self, hosts: Iterable[Host | str] | Host | str) -> list[Host]:
        each = [hosts] if isinstance(hosts, (Host, str)) else list(hosts)
        return [self.hosts.find(host) for host in each]

    def update_blocked(self) -> None:
        self.blocked = frozenset(pair for each in self.partitions for pair in each.pairs)

    def heal(self) -> None:
        """Heal all partitions."""
        for each in list(self.partitions):
            each.heal()

    def connections(self, host: Host | str | None = None, port: int | None = None) -> list[End]:
        """Return the connected ends, of a host or with a port at either end, in the order of their making."""
        wanted = None if host is None else self.hosts.find(host)
        return [
            end
            for end in sorted(self.ends.values(), key=number_of)
            if end.is_stream and end.state is CONNECTED and end.outgoing is not None
            if wanted is None or end.host is wanted
            if port is None or port in (end.port, end.remote[1] if end.remote else 0)
        ]

    def reset(self, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Reset connections at both ends: all, or those of a host or port; a drawn share. Returns: their number."""
        return self.break_connections(host, port, share, both=True)

    def half_open(self, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Break one end of connections off; the other end learns it when it sends. Returns: their number."""
        return self.break_connections(host, port, share, both=False)

    def stall(self, seconds: float, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Hold what connections carry for some seconds, in both directions. Returns: their number."""
        if not is_number(seconds) or not seconds > 0:
            raise ValueError(f"seconds is a number above 0, and not {seconds!r}")
        stalled = [end for end in self.connections(host, port) if share >= 1 or self.draw.random() < share]
        for end in stalled:
            assert end.outgoing is not None
            for wire in (end.outgoing, end.outgoing.other_way):
                if wire is not None:
                    wire.stalled_until = self.clock.now + seconds
            self.tell(f"stalls {end.name} to {end.outgoing.target.name}")
        return len(stalled)

    def break_connections(self, host: Host | str | None, port: int | None, share: float, both: bool) -> int:
        broken = 0
        for end in self.connections(host, port):
            if end.state is CONNECTED and (share >= 1 or self.draw.random() < share):
                broken += 1
                other = end.outgoing.target  # type: ignore[union-attr]
                self.tell(f"{'resets' if both else 'breaks'} {end.name} to {other.name}")
                self.forget(end)
                if both:
                    self.forget(other)
        return broken


def number_of(end: End) -> int:
    return end.number
