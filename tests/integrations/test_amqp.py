"""amqp's connections whose sending or reading a deadline, a cancel or another error from outside interrupts."""

from __future__ import annotations

import struct
import urllib.parse
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dhaga import socket
from tests.kit.interrupts import ERRORS, interrupt
from tests.kit.scripts import prints
from tests.scenarios.test_asyncio_libraries import address_of

transports = pytest.importorskip("amqp.transport")

from amqp.abstract_channel import AbstractChannel  # noqa: E402

from dhaga.integrations import _amqp  # noqa: E402


@pytest.fixture
def transport() -> Iterator[Any]:
    """A connected transport; ``peer`` is its other end."""
    _amqp.install()
    transport = transports.TCPTransport("localhost")
    transport.sock, transport.peer = socket.socketpair()
    transport._setup_transport()
    transport.connected = True
    yield transport
    transport.sock.close()
    transport.peer.close()
    _amqp.uninstall()


@ERRORS
def test_a_connection_is_cut_off_if_the_sending_of_a_frame_is_interrupted(transport: Any, error: BaseException) -> None:
    interrupt(error, transport.write, bytes(20_000_000))  # more than the socket's buffer
    assert not transport.connected
    with pytest.raises(BrokenPipeError):
        transport.write(b"next")


@ERRORS
@pytest.mark.parametrize("length", range(12))
def test_an_interrupted_reader_leaves_the_whole_frame_to_the_next(
    transport: Any, error: BaseException, length: int
) -> None:
    frame = struct.pack(">BHI4sB", 3, 7, 4, b"body", 0xCE)
    transport.peer.send(frame[:length])
    interrupt(error, transport.read_frame)
    transport.peer.send(frame[length:])
    assert transport.connected
    assert transport.read_frame() == (3, 7, b"body")


def test_a_timeout_of_amqp_itself_leaves_the_connection_as_it_is(transport: Any) -> None:
    with pytest.raises(TimeoutError), transport.having_timeout(0.01):
        transport.read_frame()
    with pytest.raises(TimeoutError), transport.having_timeout(0.01):
        transport.write(bytes(20_000_000))
    assert transport.connected


class Channel(AbstractChannel):  # type: ignore[misc]
    """A channel whose connection calls ``drain`` for events."""

    def __init__(self, transport: Any, drain: Any) -> None:
        super().__init__(SimpleNamespace(channels={}, _transport=transport, drain_events=drain), 1)

    def _setup_listeners(self) -> None:
        pass


@ERRORS
def test_a_call_that_is_interrupted_before_it_reads_leaves_the_connection_as_it_is(
    transport: Any, error: BaseException
) -> None:
    """Also after an interrupted read of another call."""

    def fails(timeout: float | None) -> None:
        raise error

    interrupt(error, transport.read_frame)
    with pytest.raises(type(error)):
        Channel(transport, fails).wait((20, 41))
    assert transport.connected


@ERRORS
def test_a_call_that_is_interrupted_while_it_reads_cuts_the_connection_off(
    transport: Any, error: BaseException
) -> None:
    interrupt(error, Channel(transport, lambda timeout: transport.read_frame()).wait, (20, 41))
    assert not transport.connected


# ---- with RabbitMQ, through a relay


@pytest.fixture
def address() -> str:
    place = urllib.parse.urlsplit(address_of("DHAGA_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/%2F"))
    return f"{place.hostname}:{place.port or 5672}"


BEGIN = """
        from dhaga import monkey
        monkey.patch()
        import dhaga, kombu
        from tests.examples.relay import Relay

        def interrupt(function, *args, **options):
            caller = dhaga.spawn(function, *args, **options)
            while not (relay.held.is_set() and caller.parked):
                dhaga.sleep(0.01)
            caller.cancel()
            relay.release()
            try:
                caller.result()
            except dhaga.Cancelled:
                print("cancelled")
"""


def test_messages_after_an_interrupted_one_arrive_over_a_new_connection(address: str) -> None:
    assert prints(f"""{BEGIN}
        host, port = "{address}".split(":")
        with Relay((host, int(port))) as relay, kombu.Connection(f"amqp://127.0.0.1:{{relay.address[1]}}") as broker:
            with broker.SimpleQueue("dhaga-amqp-sent", queue_opts={{"expires": 60}}) as queue:
                queue.clear()
            producer = broker.Producer()
            relay.hold_at(relay.up + 200_000)
            interrupt(producer.publish, 20_000_000 * "x", routing_key="dhaga-amqp-sent")
            for number in range(3):
                producer.publish(number, routing_key="dhaga-amqp-sent", retry=True)
            with broker.SimpleQueue("dhaga-amqp-sent", queue_opts={{"expires": 60}}) as queue:
                for _ in range(3):
                    print(queue.get(timeout=30).payload)
    """) == ["cancelled", "0", "1", "2"]


def test_the_answer_to_an_interrupted_call_is_not_that_to_the_next(address: str) -> None:
    assert prints(f"""{BEGIN}
        host, port = "{address}".split(":")
        with Relay((host, int(port))) as relay, kombu.Connection(f"amqp://127.0.0.1:{{relay.address[1]}}") as broker:
            channel = broker.channel()
            for name in "first", "second":
                channel.queue_declare(f"dhaga-amqp-{{name}}", arguments={{"x-expires": 60_000}})
            relay.hold_at(relay.up)
            interrupt(channel.queue_declare, "dhaga-amqp-first", passive=True)
            try:
                print(channel.queue_declare("dhaga-amqp-second", passive=True).queue)
            except broker.connection_errors:
                print("lost")
    """) == ["cancelled", "lost"]
