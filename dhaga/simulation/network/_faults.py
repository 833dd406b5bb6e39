"""``Faults``: hosts, links, clocks and faults of a network as data, from code or from a TOML file.

[hosts]
server = "10.0.0.1"

[link]                          # between all hosts; between two hosts: [[links]] with between = ["a", "b"]
latency = [0.001, 0.05]

[clock]                         # of all hosts; of one host: [[clocks]] with host = "a"
skew = [-0.5, 0.5]

[[faults]]
kind = "partition"              # or another name in KINDS
between = [["client"], ["server"]]
at = [1, 20]                    # a time in seconds since the run began, drawn from this range
seconds = 5

[[faults]]
kind = "reset"
port = 8000
every = 10                      # repeatedly, every 10 seconds on average
share = 0.5

[[faults]]
kind = "kill"
host = "server"
every = 60
seconds = [1, 10]               # the host starts again after this time
"""

from __future__ import annotations

import os
import random
import re
import tomllib
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.ranges import Range, check_share, is_number, range_of
from ..disk import CALLS, check_calls, check_unsynced
from ._host_clock import WallClock, check_clock
from ._hosts import Host, canonical, check_name
from ._link import Link, check_settings

if TYPE_CHECKING:
    from ._network import Network

KINDS = {
    "partition": ("between", "seconds"),
    "one-way": ("between", "seconds"),
    "reset": ("host", "port", "share"),
    "half-open": ("host", "port", "share"),
    "stall": ("host", "port", "share", "seconds"),
    "kill": ("host", "seconds", "unsynced"),
    "disk-full": ("host", "seconds"),
    "disk-error": ("host", "seconds", "share", "calls"),
    "disk-slow": ("host", "seconds", "sync"),
    "pause": ("host", "seconds"),
    "slow": ("host", "delay", "seconds"),
    "clock-jump": ("host", "by"),
}
"""The kinds of faults, each with its settings besides ``at`` or ``every``."""

NEEDED = {
    "stall": ("seconds",),
    "kill": ("host",),
    "disk-full": ("host",),
    "disk-error": ("host",),
    "disk-slow": ("host", "sync"),
    "pause": ("host", "seconds"),
    "slow": ("host", "delay"),
    "clock-jump": ("host", "by"),
}
"""The required settings by kind of fault. ``between`` is also required for the kinds that have this setting."""

LASTING = ("stall", "disk-full", "disk-error", "disk-slow", "pause", "slow")
"""The kinds of faults that cannot last for 0 seconds. A killed host can start again at once."""

PARTS = ("hosts", "link", "links", "clock", "clocks", "faults")

NUMBER = re.compile(r"[1-9]\d*\.[1-9]\d*")
"""The number of an occurrence of a fault: ``2.8`` is the eighth occurrence of the second fault in the list."""


class Happened(NamedTuple):
    """An occurrence of a fault in a run. ``time``: the virtual time of the occurrence."""

    number: str
    what: str
    time: float

    def words(self, began_at: float) -> str:
        """Return the occurrence as a line of text, with the seconds since the run began."""
        return f"{self.time - began_at:11.6f}  fault {self.number}, {self.what}"


def numbers_from(text: str) -> list[str]:
    """Parse a list of fault occurrences, such as ``1.1,3.2``. Returns: the number of each, as text. Raises:
    ValueError.
    """
    numbers = [part for part in text.replace(" ", "").split(",") if part]
    for number in numbers:
        if not NUMBER.fullmatch(number):
            raise ValueError(f"the second time that the first fault happens is written as 1.2, and not {number!r}")
    return numbers


class Fault:
    """A fault that happens once, ``at`` a drawn time, or repeatedly, with a mean pause of ``every`` seconds."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        given = dict(settings)
        self.kind = given.pop("kind", None)
        if self.kind not in KINDS:
            raise ValueError(f"the kind of a fault is {', '.join(KINDS)}, and not {self.kind!r}")
        known = ("at", "every", *KINDS[self.kind])
        if unknown := sorted(given.keys() - set(known)):
            raise ValueError(f"a fault {self.kind} takes {', '.join(known)}, and not {', '.join(map(repr, unknown))}")
        if ("at" in given) == ("every" in given):
            raise ValueError(f"a fault {self.kind} needs either at, a time, or every, the mean pause between two")
        self.at = None if "at" not in given else range_of("at", given["at"])
        self.every = given.get("every")
        if self.every is not None and not (is_number(self.every) and 0 < self.every < float("inf")):
            raise ValueError(f"every is a number of seconds above 0, and not {self.every!r}")
        self.read(given)

    def read(self, given: Mapping[str, Any]) -> None:
        """Read the settings of the fault's kind. Raises: ValueError."""
        self.seconds: Range | None = None if "seconds" not in given else range_of("seconds", given["seconds"])
        for name in NEEDED.get(self.kind, ()):
            if name not in given:
                raise ValueError(f"a fault {self.kind} needs its {name}")
        self.between = given.get("between")
        if "between" in KINDS[self.kind]:
            check_groups(self.kind, self.between)
        self.host: str | None = given.get("host")
        self.port: int | None = given.get("port")
        if self.port is not None and not (isinstance(self.port, int) and 0 < self.port < 65_536):
            raise ValueError(f"a port is a whole number from 1 to 65535, and not {self.port!r}")
        self.share: float = given.get("share", 1.0)
        check_share("share", self.share)
        self.unsynced: str = given.get("unsynced", "drawn")
        check_unsynced(self.unsynced)
        self.calls = check_calls(given.get("calls", CALLS))
        self.sync: Range | None = None if "sync" not in given else range_of("sync", given["sync"])
        self.delay: Range | None = None if "delay" not in given else range_of("delay", given["delay"])
        self.by: Range | None = None if "by" not in given else range_of("by", given["by"], least=None)
        if self.kind in LASTING and self.seconds is not None and not self.seconds[0] > 0:
            raise ValueError(f"a fault {self.kind} lasts for seconds above 0, and not for {given['seconds']!r}")

    def __repr__(self) -> str:
        return f"<Fault {self.kind}>"

    def __str__(self) -> str:
        of = ", ".join(sorted(self.hosts())) or ("all connections" if self.port is None else f"port {self.port}")
        return f"{self.kind} of {of}"

    def hosts(self) -> set[str]:
        """Return the names of all hosts that the fault mentions."""
        groups = [] if self.between is None else self.between
        return {host for group in groups for host in ([group] if isinstance(group, str) else group)} | (
            {self.host} if self.host is not None else set()
        )

    def happen(self, network: Network, seconds: float | None, draw: random.Random) -> None:
        """Inject the fault now. ``seconds``: its duration; None: the fault does not end by itself."""
        if self.between is not None:
            partition = network.partition(*self.between, one_way=self.kind == "one-way")
            if seconds is not None:
                network.at(network.clock.now + seconds, partition.heal)
        elif self.kind == "reset":
            network.reset(self.host, self.port, self.share)
        elif self.kind == "half-open":
            network.half_open(self.host, self.port, self.share)
        elif self.kind == "stall":
            assert seconds is not None
            network.stall(seconds, self.host, self.port, self.share)
        else:
            assert self.host is not None
            self.happen_to(network.hosts.find(self.host), seconds, draw)

    def happen_to(self, host: Host, seconds: float | None, draw: random.Random) -> None:
        """Inject a fault that strikes one host, its clock or its disk."""
        if self.kind == "disk-full":
            host.disk.fill(seconds)
        elif self.kind == "disk-error":
            host.disk.fail(self.calls, self.share, seconds)
        elif self.kind == "disk-slow":
            assert self.sync is not None
            host.disk.slow_down(self.sync, seconds)
        elif self.kind == "clock-jump":
            assert self.by is not None
            host.clock.jump(draw.uniform(*self.by))
        elif self.kind == "slow":
            assert self.delay is not None
            host.slow_down(self.delay, seconds)
        elif self.kind == "pause":
            assert seconds is not None
            if host.is_up:
                host.network.pauses.strike(host, seconds, draw)
        elif host.is_up:
            host.kill(self.unsynced)
            if seconds is not None:
                host.network.at(host.network.clock.now + seconds, host.start_again)


def check_groups(kind: str, groups: Any) -> None:
    if not isinstance(groups, list) or not groups or not all(isinstance(each, (str, list)) for each in groups):
        raise ValueError(f"a fault {kind} needs between, a list of groups of hosts, and not {groups!r}")


def clock_of(settings: Mapping[str, Any]) -> tuple[str, WallClock]:
    rest = dict(settings)
    host = rest.pop("host", None)
    if not isinstance(host, str):
        raise ValueError(f"the clock of a host needs host, its name, and not {host!r}")
    return host, check_clock(rest)


class Faults:
    """The hosts, links, clocks and faults of a network.

    ``settings``: a mapping with the keys that the module's docstring shows. Raises: TypeError, ValueError.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        if not isinstance(settings, Mapping):
            raise TypeError(f"faults are a mapping with {', '.join(PARTS)}, or a path, and not {settings!r}")
        if unknown := sorted(settings.keys() - set(PARTS)):
            raise ValueError(f"faults have {', '.join(PARTS)}, and not {', '.join(map(repr, unknown))}")
        self.path = ""
        self.hosts: dict[str, str | None] = dict(settings.get("hosts", {}))
        for name, address in self.hosts.items():
            check_name(name)
            if address:
                canonical(address)
        self.link: Link | None = None if "link" not in settings else Link(**check_settings(settings["link"]))
        self.links: list[tuple[str, str, Link]] = [self.between(each) for each in settings.get("links", [])]
        self.clock: WallClock | None = None if "clock" not in settings else check_clock(settings["clock"])
        self.clocks: list[tuple[str, WallClock]] = [clock_of(each) for each in settings.get("clocks", [])]
        self.all: list[Fault] = [Fault(each) for each in settings.get("faults", [])]

    def __repr__(self) -> str:
        return f"<Faults of {len(self.hosts)} hosts, {len(self.all)} faults>"

    def between(self, settings: Mapping[str, Any]) -> tuple[str, str, Link]:
        rest = dict(settings)
        pair = rest.pop("between", None)
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise ValueError(f"a link of two hosts needs between, a list of their names, and not {pair!r}")
        return pair[0], pair[1], Link(**check_settings(rest))

    @classmethod
    def of(cls, value: Faults | Mapping[str, Any] | str | os.PathLike[str]) -> Faults:
        """Return the ``Faults`` of a mapping or a TOML file. Raises: OSError, TypeError, ValueError."""
        if isinstance(value, Faults):
            return value
        if not isinstance(value, (str, os.PathLike)):
            return cls(value)
        try:
            with open(value, "rb") as file:
                found = cls(tomllib.load(file))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{os.fspath(value)}: {error}") from None
        found.path = os.fspath(value)
        return found

    def __str__(self) -> str:
        return self.path or repr(self)

    def apply(self, network: Network, only: Container[str] | None = None) -> None:
        """Add hosts and links to a network, set the clocks, and plan the faults.

        ``only``: the occurrences that happen, as ``"FAULT.OCCURRENCE"``, such as ``"2.1"``; None: all happen.
        Raises: ValueError if a host exists already, or if a link or a clock names an unknown host.
        """
        for name, address in self.hosts.items():
            network.host(name, address or None)
        if self.link is not None:
            network.default_link = network.local_link = self.link
        for one, other, link in self.links:
            pair = network.hosts.find(one), network.hosts.find(other)
            network.links[pair] = network.links[pair[1], pair[0]] = link
        if self.clock is not None:
            network.set_clocks(skew=self.clock.skew, drift=self.clock.drift)
        for name, clock in self.clocks:
            network.hosts.find(name).clock.begin(clock)
        for number, fault in enumerate(self.all, 1):
            Plan(network, fault, number, only).begin()


class Plan:
    """The occurrences of a fault in one run. The fault's hosts are found by name only when the fault happens.

    So the program may add these hosts after the run begins. Each plan draws from its own random numbers. So its times
    and durations do not change if ``only`` leaves other faults out.
    """

    def __init__(self, network: Network, fault: Fault, number: int, only: Container[str] | None) -> None:
        self.network = network
        self.fault = fault
        self.number = number
        self.only = only
        self.times = 0
        self.draw = random.Random(f"fault {number} of {network.seed}")
        self.began_at = network.clock.now
        self.events_seen = -1
        self.sleeps = False

    def begin(self) -> None:
        if self.fault.at is not None:
            self.network.at(self.began_at + self.draw.uniform(*self.fault.at), self.happen)
        else:
            self.plan_next()

    def plan_next(self) -> None:
        assert self.fault.every is not None
        self.sleeps = False
        pause = self.draw.expovariate(1 / self.fault.every)
        self.network.at(self.network.clock.now + pause, self.happen_again)

    def happen(self) -> None:
        """Inject the fault, unless ``only`` leaves this occurrence out."""
        self.times += 1
        number = f"{self.number}.{self.times}"
        seconds = None if self.fault.seconds is None else self.draw.uniform(*self.fault.seconds)
        if self.only is None or number in self.only:
            network = self.network
            network.run.faults.append(Happened(number, str(self.fault), network.clock.now))
            self.fault.happen(network, seconds, self.draw)

    def happen_again(self) -> None:
        """Inject the fault, and plan its next occurrence.

        If the program has done nothing since the last occurrence, only wait until the program does something. Otherwise
        endless faults would hide a deadlock of the program.
        """
        count = self.network.run.log.count
        if count == self.events_seen:
            self.sleeps = True
            self.network.sleeping.append(self)
            return
        self.happen()
        self.events_seen = self.network.run.log.count
        self.plan_next()
