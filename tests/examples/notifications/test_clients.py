"""Clients on sockets: slow ones are bounded, and nobody else waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dhaga import sleep, socket
from examples.notifications.line_protocol import LINES
from examples.notifications.messages import Id, Message
from examples.notifications.socket_clients import Client, ClientLimits, Policy
from tests.kit.scripts import PATIENCE

BIG = "x" * 30_000


def message(number: int, text: str = BIG) -> Message:
    return Message(Id(number, 0), "t", f"{number} {text}")


@contextmanager
def client(queue: int = 5, policy: Policy = "disconnect") -> Iterator[tuple[Client, Any, Counter[str]]]:
    ours, theirs = socket.socketpair()
    counts: Counter[str] = Counter()
    with ours, theirs:
        client = Client(ours, LINES, "it", ClientLimits(queue, policy, counts))
        yield client, theirs, counts
        client.close()
        sleep(0.001)  # its writer sees that


def read_all(it: Client, peer: Any) -> list[bytes]:
    """Read lines until the client has nothing queued any more."""
    data = b""
    peer.settimeout(0)
    while True:
        try:
            data += peer.recv(1 << 20)
        except BlockingIOError:
            if it.queue is None:
                return data.splitlines()
            sleep(0)


def fill(client: Client) -> int:
    """Deliver until something has to wait. Returns: the number of the last message."""
    number = 0
    while client.queue is None:
        number += 1
        client.deliver(message(number))
    return number


def test_a_client_that_reads_gets_messages_at_once_and_without_a_writer() -> None:
    with client() as (it, peer, counts):
        it.deliver(message(1, "a"))
        it.deliver(message(2, "b"))
        assert it.queue is None
        assert peer.recv(1000).count(b"MSG") == 2
        assert counts["delivered"] == 2


def test_a_client_that_is_behind_gets_all_in_order_once_it_reads() -> None:
    with client(queue=20) as (it, peer, counts):
        last = fill(it)
        for number in range(last + 1, last + 15):
            it.deliver(message(number))
        numbers = [int(line.split(b'"data": "')[1].split()[0]) for line in read_all(it, peer)]
        assert numbers == list(range(1, last + 15))
        assert it.queue is None
        it.deliver(message(99, "and goes on"))
        assert b"goes on" in peer.recv(1000)  # at once
        assert counts["disconnected"] == counts["dropped"] == 0


def test_a_client_too_far_behind_is_disconnected_and_counted() -> None:
    with client(queue=5) as (it, peer, counts):
        last = fill(it)
        for number in range(last + 1, last + 10):
            it.deliver(message(number))
        assert it.closed
        assert counts["disconnected"] == 1
        peer.settimeout(PATIENCE)
        while peer.recv(1 << 20):
            pass


def test_a_client_too_far_behind_loses_its_oldest_and_is_told_how_many() -> None:
    with client(queue=5, policy="drop") as (it, peer, counts):
        last = fill(it)
        sleep(0)  # the writer takes what is first
        for number in range(last + 1, last + 10):
            it.deliver(message(number))
        lines = read_all(it, peer)
        gap = next(index for index, line in enumerate(lines) if line.startswith(b"GAP"))
        assert lines[gap] == b'GAP {"after": null, "lost": 4}'
        after = [int(line.split(b'"data": "')[1].split()[0]) for line in lines[gap + 1 :]]
        assert after == list(range(last + 5, last + 10))
        assert counts == {"delivered": last + 9, "dropped": 4}
