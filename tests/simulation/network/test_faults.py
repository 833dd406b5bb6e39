"""``Faults``: hosts, links and faults as data and from a file."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dhaga.simulation import Simulation
from dhaga.simulation.network import Faults


def test_a_file_gives_hosts_links_and_faults(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(
        """
        hosts = {server = "10.7.7.7", client = ""}
        link = {latency = 0.5}
        links = [{between = ["client", "server"], latency = [2, 2]}]
        [[faults]]
        kind = "partition"
        between = [["client"], ["server"]]
        at = 100
        seconds = 5
        """
    )
    with Simulation(1, faults=file) as world:
        network = world.network
        assert network.hosts.find("server").address == "10.7.7.7"
        assert network.links[network.hosts.find("client"), network.hosts.find("server")].latency == (2.0, 2.0)
        assert network.default_link.latency == (0.5, 0.5)
        event = threading.Event()
        event.wait(101)
        assert len(network.partitions) == 1
        event.wait(10)
        assert not network.partitions
    assert str(Faults.of(file)) == str(file)


def test_a_fault_comes_again_and_again_at_drawn_times() -> None:
    resets = []
    with Simulation(1, faults={"faults": [{"kind": "reset", "port": 80, "every": 1}]}):
        with socket.create_server(("", 80)) as listener:
            for _ in range(5):
                with socket.create_connection(("localhost", 80)) as sock, listener.accept()[0]:
                    try:
                        sock.recv(1)
                    except ConnectionResetError as error:
                        resets.append(error)
    assert len(resets) == 5


def test_a_killed_host_starts_again_after_a_time_as_often_as_it_is_killed() -> None:
    starts: list[float] = []

    def main() -> None:
        starts.append(time.monotonic())
        while True:
            time.sleep(1)

    kill = {"kind": "kill", "host": "server", "every": 100, "seconds": 7, "unsynced": "kept"}
    with Simulation(1, preempt=None, keep=None, faults={"hosts": {"server": ""}, "faults": [kill]}) as world:
        host = world.network.hosts.find("server")
        host.start(main)
        time.sleep(1000)
        downtimes = [event.time for event in world.run.log.kept if event.what == "kills server"]
        host.kill()
    assert len(starts) == host.starts >= 4
    assert all(any(abs(start - down - 7) < 0.1 for down in downtimes) for start in starts[1:])


def test_faults_of_disks_begin_and_end() -> None:
    faults = [
        {"kind": "disk-full", "host": "server", "at": 10, "seconds": 10},
        {"kind": "disk-error", "host": "server", "at": 30, "seconds": 10, "calls": ["sync"]},
        {"kind": "disk-slow", "host": "server", "at": 50, "seconds": 10, "sync": [3, 4]},
        {"kind": "kill", "host": "server", "at": 70},
    ]
    seen: list[object] = []

    def main(path: Path) -> None:
        while True:
            time.sleep(5)
            began = time.monotonic()
            error = 0
            try:
                with open(path / "file", "ab") as file:
                    file.write(b"x" * 10_000)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as found:
                error = found.errno or -1
            seen.append(error or (time.monotonic() - began > 2))
            time.sleep(4)

    with Simulation(1, preempt=None, faults={"hosts": {"server": ""}, "faults": faults}) as world:
        host = world.network.hosts.find("server")
        host.disk.set(sync=0)
        host.start(main, host.disk.path)
        time.sleep(100)
        assert not host.is_up
    assert seen == [False, errno.ENOSPC, False, errno.EIO, False, True, False]


def happened(only: list[str] | None) -> dict[str, float]:
    faults = [
        {"kind": "stall", "every": 10, "seconds": [1, 5]},
        {"kind": "partition", "between": ["main", "server"], "every": 10, "seconds": [1, 5]},
        {"kind": "kill", "host": "server", "at": [1, 50], "seconds": [1, 5]},
    ]
    settings: Any = {"hosts": {"server": ""}, "faults": faults}
    with Simulation(1, preempt=None, faults=settings, only_faults=only) as world:
        world.network.hosts.find("server").start(time.sleep, 1)
        for _ in range(100):
            time.sleep(1)
    return {each.number: each.time for each in world.run.faults}


def test_a_fault_happens_at_the_same_time_when_others_are_left_out() -> None:
    all_of_them = happened(None)
    assert {number.partition(".")[0] for number in all_of_them} == {"1", "2", "3"}
    only = ["2.2", "3.1"]
    assert happened(only) == {number: all_of_them[number] for number in only}
    assert happened([]) == {}


def test_the_numbers_of_faults_are_checked() -> None:
    with pytest.raises(ValueError, match=r"is written as 1\.2, and not '1'"):
        Simulation(1, only_faults=["1"])


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"fault": []}, "faults have hosts, link, links, clock, clocks, faults, and not 'fault'"),
        ({"faults": [{"kind": "flood", "at": 1}]}, "the kind of a fault is partition"),
        ({"faults": [{"kind": "reset"}]}, "needs either at, a time, or every"),
        ({"faults": [{"kind": "reset", "at": -1}]}, "at is a range"),
        ({"faults": [{"kind": "reset", "every": float("inf")}]}, "every is a number of seconds above 0, and not inf"),
        *(
            ({"faults": [{"kind": kind, "at": 1, "seconds": 0, **more}]}, f"a fault {kind} lasts for seconds above 0")
            for kind, more in {
                "stall": {},
                "disk-full": {"host": "a"},
                "disk-error": {"host": "a"},
                "disk-slow": {"host": "a", "sync": 1},
                "pause": {"host": "a"},
                "slow": {"host": "a", "delay": 1},
            }.items()
        ),
        ({"faults": [{"kind": "reset", "at": 1, "seconds": 3}]}, "a fault reset takes"),
        ({"faults": [{"kind": "reset", "at": 1, "port": "http"}]}, "a port is a whole number"),
        ({"faults": [{"kind": "partition", "at": 1}]}, "needs between"),
        ({"faults": [{"kind": "stall", "at": 1}]}, "needs its seconds"),
        ({"faults": [{"kind": "kill", "at": 1}]}, "a fault kill needs its host"),
        (
            {"faults": [{"kind": "kill", "at": 1, "host": "a", "unsynced": "torn"}]},
            "unsynced is 'drawn', 'lost', 'kept'",
        ),
        ({"faults": [{"kind": "disk-slow", "at": 1, "host": "a"}]}, "a fault disk-slow needs its sync"),
        ({"faults": [{"kind": "disk-error", "at": 1, "host": "a", "calls": ["fsync"]}]}, "calls that fail are read"),
        (
            {"faults": [{"kind": "disk-full", "at": 1, "host": "a", "port": 1}]},
            "a fault disk-full takes at, every, host",
        ),
        ({"faults": [{"kind": "slow", "at": 1, "host": "a"}]}, "a fault slow needs its delay"),
        ({"faults": [{"kind": "clock-jump", "at": 1, "host": "a"}]}, "a fault clock-jump needs its by"),
        ({"clocks": [{"skew": 1}]}, "the clock of a host needs host, its name"),
        ({"clock": {"rate": 1}}, "a clock has skew, drift, and not 'rate'"),
        ({"link": {"latency": "slow"}}, "latency is a number of seconds"),
        ({"links": [{"latency": 1}]}, "needs between"),
        ({"hosts": {"a": "here"}}, "an address is one such as"),
    ],
)
def test_bad_input_is_an_error_at_the_call(faults: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Simulation(1, faults=faults)


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("hosts = 7 7")
    with pytest.raises(ValueError, match=r"faults\.toml: "):
        Faults.of(file)
