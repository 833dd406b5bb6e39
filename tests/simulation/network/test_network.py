"""The network of a simulation: partitions, resets, latency and datagrams, on virtual time; and unchanged programs."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dhaga.simulation import NotSimulated, Settings, Simulation, check_determinism, search
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one

from . import notifications
from .programs import PROGRAMS

pytestmark = pytest.mark.once

LINK = {"latency": 0.01}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_seed_gives_the_same_run_in_two_processes(program: Callable[[], None]) -> None:
    first, second = (run_one(program, Settings(), Order(1)) for _ in range(2))
    assert not first.failed, first.report
    assert (first.hash, first.events) == (second.hash, second.events)


def ask(address: Any, word: bytes = b"ping", timeout: float | None = None) -> bytes:
    with socket.create_connection(address, timeout) as sock:
        sock.sendall(word)
        return sock.recv(100)


def echo_server(count: int = 1) -> None:
    with socket.create_server(("", 80)) as listener:
        for _ in range(count):
            peer, _ = listener.accept()
            threading.Thread(target=echo, args=(peer,), daemon=True).start()


def echo(peer: socket.socket) -> None:
    with peer, contextlib.suppress(ConnectionError):
        while data := peer.recv(100):
            peer.sendall(data)


def two_hosts(world: Simulation, count: int = 1, **link: Any) -> tuple[Any, Any]:
    """Make a server that echoes, and a client."""
    world.network.set_default(**(link or LINK))
    server, client = world.network.host("server"), world.network.host("client")
    server.spawn(echo_server, count, daemon=True)
    return server, client


def test_hosts_have_names_addresses_and_ports_of_their_own() -> None:
    seen: list[Any] = []

    def client() -> None:
        seen.append((socket.gethostname(), socket.gethostbyname("server"), socket.gethostbyaddr("10.0.0.2")[0]))
        with socket.create_connection(("server", 80)) as sock:
            seen.append((sock.getpeername(), sock.getsockname()))

    with Simulation(1) as world:
        _, host = two_hosts(world)
        host.spawn(client).join()
    assert seen == [("client", "10.0.0.2", "server"), (("10.0.0.2", 80), ("10.0.0.3", 32768))]


def test_a_latency_of_hours_takes_no_real_time() -> None:
    took = []

    def client() -> None:
        began = time.monotonic()
        assert ask(("server", 80)) == b"ping"
        took.append(time.monotonic() - began)

    with Simulation(1) as world:
        _, host = two_hosts(world, latency=30)
        host.spawn(client).join()
    assert took == [pytest.approx(120, abs=0.1)]  # a round trip to connect, one to ask


def test_bandwidth_bounds_the_rate() -> None:
    took = []

    def client() -> None:
        began = time.monotonic()
        with socket.create_connection(("server", 80)) as sock:
            sock.sendall(b"x" * 90)
            assert sock.recv(100)
        took.append(time.monotonic() - began)

    with Simulation(1) as world:
        _, host = two_hosts(world, latency=0, bandwidth=10)
        host.spawn(client).join()
    assert took == [pytest.approx(18, abs=0.1)]


def test_no_listener_refuses_and_a_full_backlog_makes_a_client_try_again() -> None:
    def client() -> None:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("main", 81))
        began = time.monotonic()
        with socket.create_connection(("main", 80)), socket.create_connection(("main", 80)):
            assert time.monotonic() - began > 0.9

    with Simulation(1, stalls=0) as world:
        world.network.set_default(**LINK)
        with socket.create_server(("", 80), backlog=0) as listener:
            thread = world.network.host("client").spawn(client)
            time.sleep(0.5)
            listener.accept()[0].close()
            thread.join()


def test_hundreds_of_connections_wait_in_a_backlog() -> None:
    with Simulation(1, preempt=None), socket.create_server(("", 80), backlog=500) as listener:
        socks = [socket.create_connection(("localhost", 80)) for _ in range(400)]
        accepted = [listener.accept()[0] for _ in socks]
        assert [peer.getpeername() for peer in accepted] == [sock.getsockname() for sock in socks]
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            listener.accept()
        for each in socks + accepted:
            each.close()


def test_a_partition_holds_bytes_until_it_heals() -> None:
    took = []

    def client() -> None:
        with socket.create_connection(("server", 80)) as sock:
            with world.network.partition(["client"], ["server"]):
                sock.sendall(b"ping")
                sock.settimeout(5)
                with pytest.raises(TimeoutError):
                    sock.recv(100)
            began = time.monotonic()
            assert sock.recv(100) == b"ping"
            took.append(time.monotonic() - began)

    with Simulation(1) as world:
        _, host = two_hosts(world)
        host.spawn(client).join()
    assert 0 < took[0] < 5


def test_a_connect_across_a_partition_times_out() -> None:
    def client() -> None:
        with pytest.raises(TimeoutError):
            ask(("server", 80))

    with Simulation(1) as world:
        _, host = two_hosts(world)
        world.network.partition("client")
        host.spawn(client).join()
        assert world.clock.now - world.run.began_at == pytest.approx(127, abs=0.1)


def test_a_one_way_partition_lets_the_other_direction_through() -> None:
    got = []

    def client() -> None:
        with socket.create_connection(("server", 80)) as sock:
            sock.sendall(b"ping")
            time.sleep(0.015)  # it has arrived, and the answer is under way
            with world.network.partition(["client"], ["server"], one_way=True):
                got.append(sock.recv(100))

    with Simulation(1) as world:
        _, host = two_hosts(world)
        host.spawn(client).join()
    assert got == [b"ping"]


def test_a_reset_ends_a_read() -> None:
    def client() -> None:
        with socket.create_connection(("server", 80)) as sock:
            threading.Timer(1, world.network.reset, kwargs={"port": 80}).start()
            with pytest.raises(ConnectionResetError):
                sock.recv(100)
            with pytest.raises(BrokenPipeError):
                sock.send(b"late")

    with Simulation(1) as world:
        _, host = two_hosts(world)
        host.spawn(client).join()


def test_a_half_open_end_learns_of_it_when_it_sends() -> None:
    def client() -> None:
        with socket.create_connection(("server", 80), timeout=60) as sock:
            world.network.half_open("server")
            with pytest.raises(TimeoutError):
                sock.recv(100)
            sock.send(b"is there anybody?")
            with pytest.raises(ConnectionResetError):
                sock.recv(100)

    with Simulation(1) as world:
        _, host = two_hosts(world)
        host.spawn(client).join()


def test_faults_draw_each_connection_once() -> None:
    connections = 40
    with Simulation(1) as world, socket.create_server(("", 80), backlog=connections) as listener:
        network = world.network

        def connect() -> list[socket.socket]:
            return [socket.create_connection(("main", 80)) for _ in range(connections)]

        clients = network.host("client").spawn(connect).result()
        servers = [listener.accept()[0] for _ in range(connections)]
        assert len(network.connections()) == network.stall(1) == connections
        broken = network.half_open(share=0.5)
        assert 10 < broken < 30
        assert len(network.connections()) == connections  # each has an end that has noticed nothing
        assert network.half_open("client") + network.half_open("main") == 2 * connections - broken
        assert network.connections() == []
        for sock in (*clients, *servers):
            sock.close()


def test_a_stall_holds_a_reset() -> None:
    with Simulation(1) as world, socket.create_server(("127.0.0.1", 80)) as listener:
        with socket.create_connection(("127.0.0.1", 80)) as sock:
            peer, _ = listener.accept()
            sock.sendall(b"unread")
            time.sleep(1)
            world.network.stall(5)
            ends_at = time.monotonic() + 5
            peer.close()
            sock.settimeout(100)
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
            assert ends_at <= time.monotonic() < ends_at + 1


@pytest.mark.parametrize("kind", ["reset", "half_open"])
def test_a_fault_of_half_of_the_connections_breaks_half_of_them(kind: str) -> None:
    with Simulation(1) as world, socket.create_server(("", 80), backlog=100) as listener:
        clients = (
            world.network.host("client")
            .spawn(lambda: [socket.create_connection(("main", 80)) for _ in range(100)])
            .result()
        )
        servers = [listener.accept()[0] for _ in range(100)]
        broken = getattr(world.network, kind)(port=80, share=0.5)
        assert 30 < broken < 70
        assert len(world.network.connections()) == (100 - broken if kind == "reset" else 100)
        for sock in (*clients, *servers):
            sock.close()


def test_a_slow_reader_makes_the_sender_wait() -> None:
    sent = []

    def client() -> None:
        with socket.create_connection(("main", 80)) as sock:
            sock.settimeout(10)
            try:
                while True:
                    sent.append(sock.send(b"x" * 10_000))
            except TimeoutError:
                pass

    with Simulation(1) as world, socket.create_server(("", 80)) as listener:
        thread = world.network.host("client").spawn(client)
        peer, _ = listener.accept()
        thread.join()
        peer.close()
    assert 300_000 < sum(sent) < 2_000_000


def test_datagrams_are_lost_doubled_and_overtaken() -> None:
    def run(**link: Any) -> list[int]:
        got = []
        with Simulation(3) as world, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            world.network.set_default(**link)
            sock.bind(("127.0.0.1", 99))
            sock.settimeout(1)
            for number in range(20):
                sock.sendto(b"%d" % number, ("127.0.0.1", 99))
            try:
                while True:
                    data, address = sock.recvfrom(10)
                    assert address == ("127.0.0.1", 99)
                    got.append(int(data))
            except TimeoutError:
                return got

    assert run(latency=0.1) == list(range(20))
    assert 0 < len(run(latency=0.1, loss=0.5)) < 20
    assert 20 < len(run(latency=0.1, duplicates=0.5)) < 40
    overtaken = run(latency=0.1, reordered=0.5)
    assert sorted(overtaken) == list(range(20)) != overtaken


def test_a_real_address_is_an_error_that_names_the_call_and_the_ways_out() -> None:
    with Simulation(1):
        with pytest.raises(
            NotSimulated, match=r"connect\(\('93.184.216.34', 80\)\) is not simulated.*\n.*fake.*\n.*allow"
        ):
            socket.create_connection(("93.184.216.34", 80))
        with pytest.raises(NotSimulated, match=r"getaddrinfo\('example.com'\)"):
            socket.gethostbyname("example.com")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda network: network.host("a"), "there is a host 'a' already"),
        (lambda network: network.host(""), "a host has a name"),
        (lambda network: network.host("b", "10.0.0.2"), "is taken"),
        (lambda network: network.host("b", "ten"), "an address is one such as"),
        (lambda network: network.link("a", "b"), "there is no host 'b'"),
        (lambda network: network.link("a", "main", latency=-1), "a range .* from 0"),
        (lambda network: network.link("a", "main", loss=2), "loss is a share"),
        (lambda network: network.link("a", "main", speed=2), "a link has latency"),
        (lambda network: network.partition(), "at least one group"),
        (lambda network: network.partition("a", ["a", "main"]), "one group of a partition only"),
        (lambda network: network.stall(0), "seconds is a number above 0"),
        (lambda network: network.stall(float("inf")), "seconds is a number above 0, and not inf"),
        (lambda network: network.stall(1, share=-1), "share is a share"),
        (lambda network: network.reset(share=2), "share is a share"),
        (lambda network: network.half_open(share=float("nan")), "share is a share"),
    ],
)
def test_bad_input_is_an_error_at_the_call(call: Callable[[Any], object], message: str) -> None:
    network = Simulation(1).network
    network.host("a")
    with pytest.raises(ValueError, match=message):
        call(network)


@pytest.mark.parametrize("shut", [False, True])
def test_to_close_without_lingering_is_to_reset(shut: bool) -> None:
    def serve() -> None:
        with socket.create_server(("", 80)) as listener:
            for linger in (b"\0\0\0\0\0\0\0\0", b"\1\0\0\0\0\0\0\0"):
                peer, _ = listener.accept()
                peer.sendall(b"answer")
                time.sleep(1)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                if shut:
                    peer.shutdown(socket.SHUT_WR)
                    time.sleep(1)
                peer.close()

    with Simulation(1) as world:
        world.network.set_default(**LINK)
        server = world.network.host("server")
        server.spawn(serve)
        time.sleep(1)
        for ends in (contextlib.nullcontext(), pytest.raises(BrokenPipeError if shut else ConnectionResetError)):
            with socket.create_connection(("server", 80)) as sock:
                assert sock.recv(100) == b"answer"
                if shut:
                    assert sock.recv(100) == b""
                    time.sleep(2)
                    assert sock.recv(100) == b""  # also after a reset, as on Linux
                with ends:
                    assert sock.send(b"x") if shut else sock.recv(100) == b""


# ---- a bug that a seed finds


def counter_with_retries() -> None:
    """A client that adds 1 and tries again after a reset: it counts twice if only the answer was lost."""
    counted = []

    def serve() -> None:
        with socket.create_server(("127.0.0.1", 80)) as listener:
            while True:
                with listener.accept()[0] as peer:
                    try:
                        if peer.recv(100):
                            counted.append(1)
                            peer.sendall(b"done")
                    except ConnectionError:
                        pass

    threading.Thread(target=serve, daemon=True).start()
    time.sleep(0.001)
    done = b""
    while done != b"done":
        try:
            done = ask(("127.0.0.1", 80), b"add 1")
        except ConnectionError:
            pass
    assert counted == [1]


RESETS = Settings(faults={"faults": [{"kind": "reset", "port": 80, "at": [0.001, 0.05]}]})


def test_a_client_that_loses_an_answer_is_found_and_replayed() -> None:
    findings = search(counter_with_retries, 300, RESETS)
    failure = findings.failures[0]
    assert failure.kind == "AssertionError"
    replayed = run_one(counter_with_retries, RESETS, Order(failure.seed, failure.switches))
    assert (replayed.hash, replayed.kind) == (failure.hash, "AssertionError")


@pytest.mark.parametrize("faults", [notifications.FAULTS, notifications.SILENT], ids=["all", "silent"])
def test_listeners_of_the_notification_server_hear_each_message_once_through_faults(faults: Any) -> None:
    findings = search(notifications.program, 10, Settings(preempt=None, faults=faults))
    assert not findings.failures, findings.failures[0].report
    assert len(findings.hashes) >= 10


def test_the_notification_server_runs_by_its_seed_alone() -> None:
    """Its connections and clients end in the order of their coming: sets of them had another order in each run."""
    settings = Settings(preempt=None, faults=notifications.FAULTS)
    assert [check_determinism(notifications.program, seed, settings) for seed in (0, 1)]
