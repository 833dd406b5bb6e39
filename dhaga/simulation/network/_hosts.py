"""Hosts: each has a name, an address, and dhagas (microthreads) that run on it.

A dhaga runs on the host of the dhaga that has spawned it, unless ``Host.spawn`` has started it on another host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..._kernel.api import spawn
from ..._kernel.run.microthread import Dhaga
from ..._kernel.wait.current import running_waiter
from .._base.errors import HostKilled
from .._base.ranges import Range, check_seconds, is_number, range_of
from ..disk import check_unsynced
from ._host_clock import HostClock

if TYPE_CHECKING:
    from ..disk import Disk
    from ._network import Network

FIRST_PORT, LAST_PORT = 32768, 60999
"""The range of ports for sockets that ask for no particular port: Linux's ip_local_port_range."""

ANY = ("0.0.0.0", "::")
"""The wildcard addresses, which mean all addresses of a host."""


class Host:
    """A host of a simulated network. ``clock``: its wall clock.

    ``disk``: its own disk, a directory. Synced contents survive a kill of the host; unsynced contents might be lost.
    """

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.network = network
        self.name = name
        self.address = address
        self.last_port: int = FIRST_PORT - 1
        self.is_up: bool = True
        self.starts: int = 0
        self.main: Callable[[], Any] | None = None
        self.clock = HostClock(self, network.default_clock)

    def __repr__(self) -> str:
        return f"<Host {self.name} at {self.address}>"

    def spawn(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Start a dhaga on this host, as ``dhaga.spawn`` does. Threads that the dhaga starts also run on this host.

        The dhaga's name consists of the names of the host and the function, unless ``name`` is given.

        Raises: RuntimeError while the host is down.
        """
        if not self.is_up:
            raise RuntimeError(f"the host {self.name} is down: start() or restart() it first")
        kwargs.setdefault("name", f"{self.name}: {getattr(fn, '__name__', 'call')}")
        dhaga: Any = spawn(fn, *args, **kwargs)
        self.network.hosts.of_dhaga[dhaga] = self
        if self in self.network.pauses.until:
            self.network.pauses.hold_queued(self)
        return dhaga

    @property
    def disk(self) -> Disk:
        """The disk of this host; ``disk.path`` is its directory."""
        return self.network.disks.of(self.name)

    def start(self, main: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function on this host in a new dhaga. ``restart`` runs the function again. Returns: the dhaga.

        Raises: RuntimeError if the host has been started and is still up: call ``kill`` or ``restart`` first.
        """
        if self.main is not None and self.is_up:
            raise RuntimeError(f"the host {self.name} was started before: restart() it, or kill() it first")
        self.main = partial(main, *args, **kwargs)
        return self.begin_main()

    def begin_main(self) -> Any:
        assert self.main is not None
        self.is_up = True
        self.starts += 1
        self.network.run.tell("the simulation", f"starts {self.name}")
        return self.spawn(self.main, name=self.name if self.starts == 1 else f"{self.name}, start {self.starts}")

    def kill(self, unsynced: str = "drawn") -> None:
        """Kill this host: its dhagas run no further line, its connections are reset, and unsynced writes might be lost.

        ``unsynced``: the fate of writes without an fsync. ``"drawn"``: the seed decides which writes are kept, lost or
        torn. ``"lost"``: all are lost. ``"kept"``: all are kept, as if only the host's processes were killed.
        No-op while the host is down. The call does not return if the caller runs on this host.
        From: a dhaga of any host, main code, or a callback. Raises: ValueError.
        """
        check_unsynced(unsynced)
        if self is self.network.hosts.first:
            raise ValueError(f"the host {self.name} runs the main code, which cannot be killed: use another host")
        if self.is_up:
            self.network.run.tell("the simulation", f"kills {self.name}")
            self.is_up = False
            run = self.network.run
            run.kill(self.network.hosts.dhagas_on(self), HostKilled(f"the host {self.name} was killed"))
            self.network.close_sockets(self)
            self.network.pauses.forget(self)
            self.network.disks.kill(self.name, unsynced)
            run.end_caller()

    def pause(self, seconds: float) -> None:
        """Stop all threads of this host for ``seconds``, as a pause of a virtual machine or a SIGSTOP does.

        During the pause, the host's kernel still answers packets and stores arriving bytes. Timeouts that expire take
        effect after the pause. A caller on this host waits until the pause ends.
        From: a dhaga of any host, main code, or a callback. Raises: ValueError.
        """
        check_pause(seconds)
        self.network.run.tell("the simulation", f"pauses {self.name} for {seconds:g} s")
        self.network.pauses.begin(self, seconds)

    def slow_down(self, delay: float | Range, seconds: float | None = None) -> None:
        """Delay each thread of this host after each wake. ``delay``: seconds, a number or a range to draw from.

        The delays end after ``seconds`` seconds, or when a later call replaces them. A ``delay`` of 0 ends them at
        once. Raises: ValueError.
        """
        slow = range_of("delay", delay)
        check_seconds(seconds)
        self.network.run.tell("the simulation", f"slows {self.name}")
        self.network.pauses.delays[self] = slow
        if slow == (0, 0):
            self.network.pauses.delays.pop(self)
        elif seconds is not None:
            self.network.at(self.network.clock.now + seconds, self.end_delays, slow)

    def end_delays(self, slow: Range) -> None:
        """End the delays of one call of ``slow_down``, unless a later call has replaced them."""
        if self.network.pauses.delays.get(self) is slow:
            self.slow_down(0)

    def restart(self, unsynced: str = "drawn") -> Any:
        """Kill this host if it is up, and run the function of ``start`` again. Returns: the new dhaga.

        Raises: RuntimeError if ``start`` has not been called, or the caller runs on this host; ValueError.
        """
        if self.network.hosts.of_caller() is self:
            raise RuntimeError(f"the host {self.name} cannot restart itself: restart it from another host or main code")
        self.check_main()
        self.kill(unsynced)
        return self.begin_main()

    def start_again(self) -> None:
        """Run the function of ``start`` again, unless the host is up. Raises: RuntimeError."""
        self.check_main()
        if not self.is_up:
            self.begin_main()

    def check_main(self) -> None:
        if self.main is None:
            raise RuntimeError(f"the host {self.name} has nothing to run: start(main) it first")

    def owns(self, address: str) -> bool:
        """Return whether an address belongs to this host."""
        return address == self.address or address in ANY or is_loopback(address)

    def next_port(self, taken: Callable[[int], bool]) -> int:
        """Return the next free port. Raises: OSError."""
        for _ in range(FIRST_PORT, LAST_PORT + 1):
            self.last_port = FIRST_PORT if self.last_port >= LAST_PORT else self.last_port + 1
            if not taken(self.last_port):
                return self.last_port
        raise OSError(98, f"the host {self.name} has no free port left")


class Hosts:
    """The hosts of a network, by name and by address, and the host of each dhaga."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.by_name: dict[str, Host] = {}
        # Hosts by all their names in lower case, because host names are case-insensitive.
        self.named: dict[str, Host] = {}
        self.by_address: dict[str, Host] = {}
        self.of_dhaga: WeakKeyDictionary[Any, Host] = WeakKeyDictionary()
        self.first = self.add("main", None)

    def with_threads(self) -> list[str]:
        """Return the names of the hosts that have threads other than daemons, except the host of the main code."""
        live = {self.of_dhaga.get(dhaga) for dhaga in self.network.scheduler.in_order() if not dhaga.daemon}
        return [name for name, host in self.by_name.items() if host in live and host is not self.first]

    def add(self, name: str, address: str | None) -> Host:
        """Add a host. Raises: TypeError, ValueError."""
        self.check_new(name)
        if address is None:
            address = self.free_address()
        address = canonical(address)
        if address in self.by_address or is_loopback(address) or address in ANY:
            raise ValueError(f"a host needs an address of its own, and {address} is taken")
        host = Host(self.network, name, address)
        self.by_name[name] = self.named[name.lower()] = self.by_address[address] = host
        return host

    def check_new(self, name: str) -> None:
        """Check the name of a new host. Raises: ValueError."""
        check_name(name)
        if name.lower() in self.named:
            raise ValueError(f"there is a host {name!r} already")

    def free_address(self) -> str:
        number = len(self.by_name) + 1
        while (address := f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") in self.by_address:
            number += 1
        return address

    def alias(self, name: str, host: Host | str) -> None:
        self.check_new(name)
        self.named[name.lower()] = self.find(host)

    def find(self, host: Host | str) -> Host:
        """Return the host that is given as a ``Host``, a name or an address. Raises: ValueError."""
        if isinstance(host, Host):
            return host
        found = self.named.get(str(host).lower()) or self.by_address.get(host)
        if found is None:
            raise ValueError(f"there is no host {host!r}: there are {', '.join(self.by_name)}")
        return found

    def of_waiter(self, waiter: Any) -> Host | None:
        """Return the host of a dhaga or of the main code; None for a call of the event loop."""
        if isinstance(waiter, Dhaga):
            return self.of_dhaga.get(waiter, self.first)
        return self.first if waiter is self.network.run.scheduler.main_waiter else None

    def seconds_ahead(self) -> float:
        """Return the seconds by which the wall clock of the caller's host is ahead."""
        return self.of_caller().clock.ahead()

    def of_caller(self) -> Host:
        """Return the host of the calling dhaga; for any other caller, the main code's host."""
        waiter = running_waiter()
        return self.of_dhaga.get(waiter, self.first) if isinstance(waiter, Dhaga) else self.first

    def dhagas_on(self, host: Host) -> list[Any]:
        """Return the live dhagas of a host, the oldest first."""
        return [dhaga for dhaga in self.network.run.scheduler.in_order() if self.of_dhaga.get(dhaga) is host]

    def note_spawn(self, dhaga: Any) -> None:
        host = self.of_caller()
        if host is not self.first:
            self.of_dhaga[dhaga] = host


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name != name.strip() or name.lower() == "localhost":
        raise ValueError(f"a host has a name, such as 'server' or 'api.example.com', and not {name!r}")


def check_pause(seconds: object) -> None:
    if not is_number(seconds) or not 0 < seconds < float("inf"):  # type: ignore[operator]
        raise ValueError(f"a pause is a number of seconds above 0, and not {seconds!r}")


def canonical(address: str) -> str:
    """Return the canonical form of an IP address: IPv4 for an IPv4-mapped IPv6 address. Raises: ValueError."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except (ValueError, AttributeError):
        raise ValueError(f"an address is one such as '10.0.0.5', and not {address!r}") from None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def this_host(address: tuple[str, int]) -> tuple[str, int]:
    """Return the address that a sender reaches: a loopback address instead of a wildcard address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0]), address[1]


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
