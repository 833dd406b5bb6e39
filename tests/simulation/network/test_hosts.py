"""Hosts that are killed and started again: what ends, what others see of it, and what stays."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.simulation import HostKilled, Settings, Simulation, check_determinism, search

pytestmark = pytest.mark.once


def test_a_kill_ends_every_dhaga_of_the_host_without_its_finally() -> None:
    did: list[str] = []
    lock = threading.Lock()
    pool = dhaga.OffloadPool("calls", threads=1)

    def noting(name: str, wait: Callable[[], Any]) -> None:
        try:
            wait()
            did.append(f"{name} goes on")
        finally:
            did.append(f"{name} cleans up")

    def main() -> None:
        with lock:
            for name, wait in (
                ("sleeper", lambda: time.sleep(5)),
                ("locker", lock.acquire),
                ("offloader", lambda: pool.offload(time.sleep, 5)),
                ("poller", lambda: [time.sleep(0) for _ in range(10_000_000)]),
            ):
                threading.Thread(target=noting, args=(name, wait)).start()
            noting("main", lambda: time.sleep(10))

    with Simulation(1, preempt=None) as world:
        host = world.network.host("server")
        started = host.start(main)
        time.sleep(1)
        new = host.spawn(noting, "new", lambda: None)
        host.kill()
        assert not host.is_up
        time.sleep(100)
        assert [new.is_alive(), started.is_alive()] == [False, False]
        with pytest.raises(HostKilled, match="the host server was killed"):
            started.result()
        started.join()
    assert did == []


def test_a_dhaga_that_kills_its_own_host_does_not_return() -> None:
    did: list[str] = []

    def main() -> None:
        did.append("kills")
        world.network.hosts.find("server").kill()
        did.append("goes on")

    with Simulation(1) as world:
        world.network.host("server").start(main).join()
    assert did == ["kills"]


def test_a_restart_runs_main_again_with_its_arguments_and_its_disk() -> None:
    def main(path: Any, runs: list[int]) -> None:
        with open(path / "runs", "a") as file:
            file.write("x")
        runs.append((path / "runs").stat().st_size)

    runs: list[int] = []
    with Simulation(1, preempt=None) as world:
        host = world.network.host("server")
        host.start(main, host.disk.path, runs=runs).join()
        host.disk.sync()
        host.restart().join()
        host.kill("kept")
        host.start(main, host.disk.path, runs).join()
        assert host.starts == 3
    assert runs == [1, 2, 3]


def test_the_peers_of_a_killed_host_get_resets_and_its_ports_are_free_again() -> None:
    seen: list[object] = []

    def serve() -> None:
        with socket.create_server(("", 80)) as listener:
            while True:
                peer, _ = listener.accept()
                peer.sendall(b"hello")

    def ask() -> None:
        with socket.create_connection(("server", 80)) as sock:
            seen.append(sock.recv(5, socket.MSG_WAITALL))
            with pytest.raises(ConnectionResetError):
                sock.recv(100)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("server", 80))
        time.sleep(10)
        with socket.create_connection(("server", 80)) as sock:
            seen.append(sock.recv(5, socket.MSG_WAITALL))

    with Simulation(1) as world:
        server = world.network.host("server")
        server.start(serve)
        time.sleep(1)
        asking = world.network.host("client").spawn(ask)
        time.sleep(1)
        server.kill()
        time.sleep(5)
        server.start(serve)
        asking.join()
        server.kill()
    assert seen == [b"hello", b"hello"]


def test_datagrams_to_a_killed_host_are_lost_and_its_port_can_be_bound_again() -> None:
    got: list[bytes] = []

    def serve() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("", 53))
            while True:
                got.append(sock.recv(100))

    with Simulation(1) as world:
        server = world.network.host("server")
        server.start(serve)
        time.sleep(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for word in (b"one", b"two", b"three"):
                sock.sendto(word, ("server", 53))
                time.sleep(1)
                if word == b"one":
                    server.kill()
                elif word == b"two":
                    server.start(serve)
                    time.sleep(1)
        server.kill()
    assert got == [b"one", b"three"]


def test_others_go_on_when_a_host_dies_at_any_point() -> None:
    """The lock and the queue of the survivors belong to no dead dhaga, whatever it was doing."""

    def program() -> None:
        network = world_of().network
        words: list[str] = []
        items: Any = __import__("queue").Queue()

        def talk(name: str) -> None:
            for number in range(5):
                items.put(f"{name} {number}")
                time.sleep(0.01)

        def collect() -> None:
            while len(words) < 5:
                word = items.get()
                words.extend([word] if word.startswith("b") else [])

        hosts = [network.host(name) for name in "ab"]
        collecting = threading.Thread(target=collect)
        collecting.start()
        for host in hosts:
            host.start(talk, host.name)
        time.sleep(0.025)
        hosts[0].kill()
        collecting.join()
        assert words == [f"b {number}" for number in range(5)]

    def world_of() -> Simulation:
        from dhaga.simulation import current

        return current()

    findings = search(program, 20)
    assert not findings.failures, findings.failures[0].report
    assert check_determinism(program, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda network, host: network.hosts.first.kill(), ValueError, "the host main runs the main code"),
        (lambda network, host: host.kill("torn"), ValueError, "unsynced is 'drawn', 'lost', 'kept', and not 'torn'"),
        (lambda network, host: host.start(time.sleep, 1), RuntimeError, "the host server was started before"),
        (lambda network, host: network.host("idle").restart(), RuntimeError, "the host idle has nothing to run"),
        (
            lambda network, host: (host.kill(), host.spawn(time.sleep, 1)),
            RuntimeError,
            r"the host server is down: start\(\) or restart\(\) it first",
        ),
        (
            lambda network, host: host.spawn(host.restart).result(),
            RuntimeError,
            "the host server cannot restart itself",
        ),
    ],
)
def test_wrong_uses_are_errors_that_say_what_to_do(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        with Simulation(1, preempt=None) as world:
            host = world.network.host("server")
            host.start(time.sleep, 1000)
            call(world.network, host)


def killed_in_the_middle() -> None:
    from dhaga.simulation import current

    host = current().network.host("server")

    def main() -> None:
        with open(host.disk.path / "file", "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 1000)
                time.sleep(0.01)

    host.start(main)
    time.sleep(0.1)
    host.restart()
    time.sleep(0.1)
    host.kill()


@pytest.mark.long("simulates in two processes")
def test_a_run_with_kills_repeats_in_another_process() -> None:
    hashes = {check_determinism(killed_in_the_middle, seed, Settings(preempt=None)) for seed in range(4)}
    assert len(hashes) == 4
