"""Hosts: a name, an address, and the dhagas that run on it. Those that a dhaga spawns run on its own host."""

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
"""The ports that a host gives by itself: Linux's ip_local_port_range."""

ANY = ("0.0.0.0", "::")
"""The addresses that mean all of a host's own."""


class Host:
    """One host of a simulated network. ``disk``: its own, a directory that survives a kill as far as it was synced.

    ``clock``: its wall clock.
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
        """Start a dhaga on this host, as ``dhaga.spawn`` does; so do the threads that it starts.

        Its name consists of the host's and the function's, unless ``name`` gives another one.

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
        """Run a function on this host as ``spawn`` does; ``restart`` runs it again. Returns: its dhaga.

        Raises: RuntimeError while it runs: kill the host, or ``restart`` it.
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
        """Kill this host: its dhagas run no further line, its sockets are reset, and unsynced writes may be lost.

        ``unsynced``: what becomes of writes without an fsync: ``"drawn"`` from the seed (kept, lost or torn),
        ``"lost"``, or ``"kept"``, as if only its processes were killed. No-op while it is down. From: a dhaga of any
        host, which does not return if it is one of this host's; main code; a callback. Raises: ValueError.
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
        """Stop all threads of this host for some seconds, as the stop of a virtual machine or a SIGSTOP does.

        Its timers expire late, once it goes on. Its kernel answers meanwhile, and keeps what arrives.
        From: a dhaga of any host, which waits if it is one of this host's; main code; a callback. Raises: ValueError.
        """
        check_pause(seconds)
        self.network.run.tell("the simulation", f"pauses {self.name} for {seconds:g} s")
        self.network.pauses.begin(self, seconds)

    def slow_down(self, delay: float | Range, seconds: float | None = None) -> None:
        """Delay each thread of this host after each wake, by ``delay`` seconds, a number or a range to draw from.

        It ends after some seconds; a ``delay`` of 0 also ends it. Raises: ValueError.
        """
        slow = range_of("delay", delay)
        check_seconds(seconds)
        self.network.run.tell("the simulation", f"slows {self.name}")
        self.network.pauses.delays[self] = slow
        if slow == (0, 0):
            self.network.pauses.delays.pop(self)
        elif seconds is not None:
            self.network.at(self.network.clock.now + seconds, self.slow_down, 0)

    def restart(self, unsynced: str = "drawn") -> Any:
        """Kill this host if it is up, and run again what ``start`` ran. Returns: its dhaga. Raises: RuntimeError."""
        if self.network.hosts.of_caller() is self:
            raise RuntimeError(f"the host {self.name} cannot restart itself: restart it from another host or main code")
        self.check_main()
        self.kill(unsynced)
        return self.begin_main()

    def start_again(self) -> None:
        """Run again what ``start`` ran, unless it is up. Raises: RuntimeError."""
        self.check_main()
        if not self.is_up:
            self.begin_main()

    def check_main(self) -> None:
        if self.main is None:
            raise RuntimeError(f"the host {self.name} has nothing to run: start(main) it first")

    def owns(self, address: str) -> bool:
        """Return whether an address is one of this host's own."""
        return address == self.address or address in ANY or is_loopback(address)

    def next_port(self, taken: Callable[[int], bool]) -> int:
        """Return the next free port."""
        for _ in range(FIRST_PORT, LAST_PORT + 1):
            self.last_port = FIRST_PORT if self.last_port >= LAST_PORT else self.last_port + 1
            if not taken(self.last_port):
                return self.last_port
        raise OSError(98, f"the host {self.name} has no free port left")


class Hosts:
    """The hosts of a network, by name and by address, and who runs on which."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.by_name: dict[str, Host] = {}
        self.by_address: dict[str, Host] = {}
        self.aliases: dict[str, str] = {}
        self.of_dhaga: WeakKeyDictionary[Any, Host] = WeakKeyDictionary()
        self.first = self.add("main", None)

    def add(self, name: str, address: str | None) -> Host:
        """Add a host. Raises: TypeError, ValueError."""
        check_name(name)
        if name in self.by_name or name in self.aliases:
            raise ValueError(f"there is a host {name!r} already")
        if address is None:
            address = self.free_address()
        address = canonical(address)
        if address in self.by_address or is_loopback(address) or address in ANY:
            raise ValueError(f"a host needs an address of its own, and {address} is taken")
        host = self.by_name[name] = self.by_address[address] = Host(self.network, name, address)
        return host

    def free_address(self) -> str:
        number = len(self.by_name) + 1
        while (address := f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}") in self.by_address:
            number += 1
        return address

    def alias(self, name: str, host: Host | str) -> None:
        check_name(name)
        if name in self.by_name or name in self.aliases:
            raise ValueError(f"there is a host {name!r} already")
        self.aliases[name] = self.find(host).name

    def find(self, host: Host | str) -> Host:
        """Return a host, or the one of that name or address. Raises: ValueError."""
        if isinstance(host, Host):
            return host
        found = self.by_name.get(self.aliases.get(host, host)) or self.by_address.get(host)
        if found is None:
            raise ValueError(f"there is no host {host!r}: there are {', '.join(self.by_name)}")
        return found

    def of_waiter(self, waiter: Any) -> Host | None:
        """Return the host of a thread or of the main code; None for a call of the event loop."""
        if isinstance(waiter, Dhaga):
            return self.of_dhaga.get(waiter, self.first)
        return self.first if waiter is self.network.run.scheduler.main_waiter else None

    def seconds_ahead(self) -> float:
        """Return the seconds that the wall clock of the caller's host is ahead."""
        return self.of_caller().clock.ahead()

    def of_caller(self) -> Host:
        """Return the calling dhaga's host; elsewhere the main code's."""
        waiter = running_waiter()
        return self.of_dhaga.get(waiter, self.first) if isinstance(waiter, Dhaga) else self.first

    def dhagas_on(self, host: Host) -> list[Any]:
        """Return the dhagas of a host that have not ended, the oldest first."""
        return [dhaga for dhaga in self.network.run.scheduler.in_order() if self.of_dhaga.get(dhaga) is host]

    def note_spawn(self, dhaga: Any) -> None:
        host = self.of_caller()
        if host is not self.first:
            self.of_dhaga[dhaga] = host


def check_name(name: object) -> None:
    if not isinstance(name, str) or not name or name != name.strip() or name == "localhost":
        raise ValueError(f"a host has a name, such as 'server' or 'api.example.com', and not {name!r}")


def check_pause(seconds: object) -> None:
    if not is_number(seconds) or not 0 < seconds < float("inf"):  # type: ignore[operator]
        raise ValueError(f"a pause is a number of seconds above 0, and not {seconds!r}")


def canonical(address: str) -> str:
    """Return an IP address in its usual form. Raises: ValueError."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except (ValueError, AttributeError):
        raise ValueError(f"an address is one such as '10.0.0.5', and not {address!r}") from None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
