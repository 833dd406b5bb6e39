"""``Network``: the hosts, sockets and wires of one simulation, and the schedule of their events.

Each socket of the program is one end of a real socketpair. The network holds the other ends, and watches them with an
epoll of its own, which is one handler of the event loop. All bytes that arrive within one tick of virtual time are
delivered by one call of the loop, in the order of their sends. Sockets become ready only through these calls and
through the program's own calls. So the program sees all events in the same order in each run of a seed.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..._kernel import originals
from ..._kernel.process.virtual_clock import VirtualClock
from .._base.errors import NotSimulated
from .._base.part import Part
from .._base.ranges import check_share, is_number
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
    NEW,
    READS,
    WRITES,
    Address,
    End,
    standard_fstat,
)
from ._host_clock import WallClock, check_clock
from ._hosts import Host, Hosts, is_loopback, this_host
from ._killed import close_sockets, discard_closed
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
        # The sockets whose connections are over, but which the program may still have open.
        self.over: list[End] = []
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
        """Close all fds of the network."""
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
        """Register an epoll for all sockets with the event loop. Raises: NotSimulated on systems other than Linux."""
        if originals.epoll is None:
            raise NotSimulated("the network is simulated on Linux only: give the program a socketpair instead")
        self.epoll = originals.epoll()
        self.scheduler.loop.add_reader(self.epoll.fileno(), self.collect)

    def note_arrival(self, wire: Any, what: str) -> None:
        self.tell(f"brings {wire.target.name} {what} from {wire.source.name}")

    # ---- time

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Schedule a call for a time of the virtual clock, rounded up to the next tick."""
        # The product's rounding error can put the tick before the time.
        moment = max(time, math.ceil(time / self.tick) * self.tick)
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
        """Plan the next occurrence of each fault that waits until the program does something."""
        plans, self.sleeping = self.sleeping, []
        for plan in plans:
            plan.plan_next()

    def name_of_fd(self, fd: int) -> str:
        """Return a socket's addresses for a report, or an empty text. From: a dhaga that waits for the fd."""
        try:
            end = self.ends.get(standard_fstat(fd).st_ino)
        except OSError:
            return ""
        if end is None:
            return ""
        return f"{end.name} to {end.remote[0]}:{end.remote[1]}" if end.remote else end.name

    def next_moment(self) -> float | None:
        """Return the time of the next scheduled call on the network; None if no call is scheduled."""
        return min(self.calls, default=None)

    def begin(self, run: Run, scheduler: Any) -> None:
        super().begin(run, scheduler)
        run.pauses = self.pauses

    # ---- sockets

    def new_end(self, host: Host, family: int, kind: int, proto: int) -> End:
        """Create a socket on a host, and watch it."""
        if self.epoll is None:
            self.start_watching()
        self.note_activity()
        discard_closed(self)
        self.number += 1
        end = End(self.number, host, family, kind, proto)
        self.ends[end.inode] = self.by_wire_fd[end.wire_fd] = end
        self.epoll.register(end.wire_fd, READS)
        return end

    def watch(self, end: End, writable: bool) -> None:
        """Watch whether the network can read from a socket. ``writable``: also watch whether the network can write."""
        if end.state is not CLOSED:
            self.epoll.modify(end.wire_fd, READS | WRITES if writable else READS)

    def collect(self) -> None:
        """Collect the bytes that the program has sent, in the order of the sockets' numbers. From: the event loop."""
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
        """Close a socket that is listening, is connecting, or has never been connected."""
        if end.backlog is not None:
            abandon_backlog(self, end.backlog)
        elif end.state is ANSWERED and end.outgoing is not None:
            end.outgoing.send_reset()
        self.close(end)

    def close_unaccepted(self, end: End) -> None:
        """Reset a connection that the listener has not accepted."""
        originals.close(end.fd)
        if end.outgoing is not None and end.state is not CLOSED:
            end.outgoing.send_reset()
        self.close(end)

    def close(self, end: End) -> None:
        """Release the network's side of a socket."""
        self.ports.unbind(end)
        self.by_wire_fd.pop(end.wire_fd, None)
        self.over.append(end)
        end.close()
        discard_closed(self)

    def break_off(self, end: End) -> None:
        """Make the program see a reset of a connection."""
        self.ports.unbind(end)
        self.by_wire_fd.pop(end.wire_fd, None)
        self.over.append(end)
        end.break_off()

    def forget(self, end: End) -> None:
        """Break off one end of a connection without notice to the other end, which stays half-open until it sends."""
        if end.state is not CLOSED:
            self.break_off(end)

    def close_sockets(self, host: Host) -> None:
        """Close all sockets of a killed host."""
        close_sockets(self, host)

    # ---- connecting

    def host_at(self, end: End, address: Address) -> Host:
        """Return the host at an address. Loopback addresses mean ``end``'s host. Raises: NotSimulated."""
        if is_loopback(address[0]):
            return end.host
        found = self.hosts.by_address.get(address[0])
        if found is None:
            raise self.not_simulated(f"connect({address!r})", f"no host of the simulation has the address {address[0]}")
        return found

    def not_simulated(self, call: str, reason: str) -> NotSimulated:
        """Return the error for a call that needs the real network. Its message names the alternatives."""
        return NotSimulated(
            f"{call} is not simulated, because a real address answers when it likes, and {reason};\n"
            "run a fake of the other side on a host of that name (world.network.host(name, address).spawn(fake)), "
            "or put a stub in place of the client;\n"
            "or let real calls through: allow=['network'], on the command line --allow network, if they need not "
            "repeat with the seed"
        )

    def connect(self, end: End, address: Address) -> int:
        """Connect a datagram socket, or begin to connect a stream. Returns: 0 or an errno. Raises: NotSimulated."""
        if end.state in (CONNECTING, ANSWERED):
            return errno.EALREADY
        if end.state is FAILED:
            error = end.take_error() or errno.ECONNABORTED
            end.state, end.local, end.remote = NEW, (end.bound_address, end.port), None
            return error
        if end.is_stream and (end.state is CONNECTED or end.state is CLOSED):
            return errno.EISCONN
        if end.state is LISTENING:
            return errno.EISCONN
        address = this_host(address)
        host = self.host_at(end, address)
        if end.local is None:
            self.ports.bind(end, end.wildcard)
        end.local = end.near_address(address[0]), end.port
        end.remote = address
        if not end.is_stream:
            end.state = CONNECTED
            return 0
        Attempt(self, end, host, address)
        return errno.EINPROGRESS

    # ---- links and faults

    def host(self, name: str, address: str | None = None) -> Host:
        """Add a host. Without an address, the host gets the next free address of 10.0.0.0/8.

        Raises: ValueError if the name or the address is taken or invalid.
        """
        return self.hosts.add(name, address)

    def alias(self, name: str, host: Host | str) -> None:
        """Add a further name of a host. Raises: ValueError."""
        self.hosts.alias(name, host)

    def link_between(self, one: Host, other: Host, local: bool) -> Link:
        """Return the link from one host to another or to itself."""
        return self.links.get((one, other)) or (self.local_link if local or one is other else self.default_link)

    def link(self, one: Host | str, other: Host | str, **settings: Any) -> Link:
        """Set the link between two hosts in both directions. ``settings``: fields of ``Link``. Raises: ValueError."""
        pair = self.hosts.find(one), self.hosts.find(other)
        link = Link(**check_settings(settings))
        self.links[pair] = self.links[pair[1], pair[0]] = link
        return link

    def set_default(self, **settings: Any) -> Link:
        """Set the default link between hosts, and from each host to itself. Raises: ValueError."""
        self.default_link = self.local_link = Link(**check_settings(settings))
        return self.default_link

    def set_clocks(self, **settings: Any) -> None:
        """Set the wall clock of each host by a draw. ``settings``: fields of ``WallClock``. Raises: ValueError."""
        self.default_clock = check_clock(settings)
        for host in self.hosts.by_name.values():
            host.clock.begin(self.default_clock)

    def partition(self, *groups: Iterable[Host | str] | Host | str, one_way: bool = False) -> Partition:
        """Separate groups of hosts from each other. A single group is separated from all other hosts.

        ``one_way``: only packets from the first group to other groups are lost. Raises: ValueError.
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
        """Return one end of each connection, in the order of their creation.

        ``host``: only connections of this host, each as the end on this host. ``port``: only connections with this port
        at either end.
        """
        wanted = None if host is None else self.hosts.find(host)
        found: dict[End, None] = {}
        for end in sorted(self.ends.values(), key=attrgetter("number")):
            if (
                end.is_stream
                and end.state is CONNECTED
                and end.outgoing is not None
                and end.outgoing.target not in found
                and (wanted is None or end.host is wanted)
                and (port is None or port in (end.port, end.remote[1] if end.remote else 0))
            ):
                found[end] = None
        return list(found)

    def reset(self, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Reset connections at both ends. Returns: the number of reset connections. Raises: ValueError.

        ``host`` and ``port`` select connections, as for ``connections``. Each selected connection is reset with the
        probability ``share``.
        """
        drawn = self.drawn_connections(host, port, share)
        for end in drawn:
            other = other_end(end)
            self.tell(f"resets {end.name} to {other.name}")
            self.forget(end)
            self.forget(other)
        return len(drawn)

    def half_open(self, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Break off one end of each selected connection. The other end notices nothing until it sends.

        With ``host``, the end on this host breaks off, otherwise a drawn end. ``host``, ``port`` and ``share`` select
        connections, as for ``reset``. Returns: the number of these connections. Raises: ValueError.
        """
        drawn = self.drawn_connections(host, port, share)
        for end in drawn:
            ends = (end, other_end(end))
            broken, other = ends if host is not None or self.draw.random() < 0.5 else ends[::-1]
            self.tell(f"breaks {broken.name} to {other.name}")
            self.forget(broken)
        return len(drawn)

    def stall(self, seconds: float, host: Host | str | None = None, port: int | None = None, share: float = 1.0) -> int:
        """Hold the bytes of connections for ``seconds``, in both directions.

        ``host``, ``port`` and ``share`` select connections, as for ``reset``. Returns: the number of these connections.
        Raises: ValueError.
        """
        if not is_number(seconds) or not 0 < seconds < math.inf:
            raise ValueError(f"seconds is a number above 0, and not {seconds!r}")
        stalled = self.drawn_connections(host, port, share)
        for end in stalled:
            assert end.outgoing is not None
            for wire in (end.outgoing, end.outgoing.other_way):
                if wire is not None:
                    wire.stalled_until = self.clock.now + seconds
            self.tell(f"stalls {end.name} to {other_end(end).name}")
        return len(stalled)

    def drawn_connections(self, host: Host | str | None, port: int | None, share: float) -> list[End]:
        check_share("share", share)
        return [end for end in self.connections(host, port) if share >= 1 or self.draw.random() < share]


def other_end(end: End) -> End:
    assert end.outgoing is not None
    return end.outgoing.target
