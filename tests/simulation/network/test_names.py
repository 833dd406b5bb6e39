"""The names of a simulated network: what ``socket`` answers about hosts."""

from __future__ import annotations

import socket

import pytest

from dhaga.simulation import Simulation


def test_getaddrinfo_answers_with_the_hosts_of_the_simulation() -> None:
    tcp = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    with Simulation(1) as world:
        world.network.host("api.example.com", "10.1.2.3")
        world.network.alias("api", "api.example.com")
        assert socket.getaddrinfo("api", "https", type=socket.SOCK_STREAM) == [(*tcp, ("10.1.2.3", 443))]
        assert socket.getaddrinfo("localhost", 1, type=socket.SOCK_STREAM) == [(*tcp, ("127.0.0.1", 1))]
        assert socket.getaddrinfo(None, 1, socket.AF_INET6, socket.SOCK_STREAM)[0][4] == ("::1", 1, 0, 0)
        assert socket.getnameinfo(("10.1.2.3", 80), socket.NI_NUMERICSERV) == ("api.example.com", "80")
        assert socket.getfqdn("10.1.2.3") == "api.example.com"
        assert socket.gethostbyname_ex("api") == ("api", [], ["10.1.2.3"])
        with pytest.raises(socket.herror):
            socket.gethostbyaddr("10.9.9.9")


def test_without_a_simulation_names_are_the_real_ones() -> None:
    before = socket.gethostname()
    with Simulation(1):
        assert socket.gethostname() == "main"
    assert socket.gethostname() == before
