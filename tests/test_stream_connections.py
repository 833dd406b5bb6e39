"""dhaga.stream: how streams are connected, and go on encrypted."""

from __future__ import annotations

import socket as stdsocket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import tornado
from tornado.iostream import StreamClosedError

import dhaga
from dhaga import socket, stream
from dhaga.testing import cancel_at_every_park, open_fds, settle
from tests.kit import certificates
from tests.kit.parking import parked, victim
from tests.test_stream import Pair, error_of
from tests.test_stream import pair as pair


def test_connect_reaches_a_listener() -> None:
    with stdsocket.create_server(("127.0.0.1", 0)) as listener:
        with stream.connect(listener.getsockname(), timeout=10) as near:
            far, _ = listener.accept()
            with far:
                near.write(b"ping")
                assert far.recv(4) == b"ping"
                far.sendall(b"pong")
                assert near.read_bytes(4) == b"pong"


# ---- TLS


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's and a client's, with the certificate of Tornado's own tests, of foo.example.com."""
    folder = Path(tornado.__file__).parent / "test"
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "test.crt", folder / "test.key")
    return server, ssl.create_default_context(cafile=str(folder / "test.crt"))


def test_start_tls_goes_on_encrypted(pair: Pair) -> None:
    near, far = pair
    server, client = contexts()
    client.check_hostname = False
    accepting = parked(far.start_tls, True, server)
    near.start_tls(False, client, timeout=10)
    accepting.result()
    near.write(b"hidden\n")
    assert far.read_until(b"\n") == b"hidden\n"
    assert near.iostream.socket.version().startswith("TLS")


@pytest.mark.logs
def test_start_tls_with_the_wrong_name_raises_and_closes(pair: Pair) -> None:
    near, far = pair
    server, client = contexts()
    accepting = parked(error_of, far.start_tls, True, server)
    with pytest.raises(ssl.SSLError):
        near.start_tls(False, client, "wrong.example.com", timeout=10)
    far.close()
    assert isinstance(accepting.result(), (ssl.SSLError, StreamClosedError))
    assert near.closed()


def test_start_tls_cut_short_closes(pair: Pair) -> None:
    near, far = pair
    shaking = parked(near.start_tls, False, contexts()[1], "foo.example.com")
    shaking.cancel()
    with pytest.raises(dhaga.Cancelled):
        shaking.result()
    far.read_until_close()  # ends: the other side is closed
    assert near.closed()


def test_close_ends_start_tls(pair: Pair) -> None:
    near, _ = pair
    shaking = parked(error_of, near.start_tls, False, contexts()[1], "foo.example.com")
    with pytest.raises(RuntimeError, match="is in start_tls"):
        near.write(b"too early")
    near.close()
    assert isinstance(shaking.result(), StreamClosedError)
    assert near.closed()
    with pytest.raises(StreamClosedError):
        near.read_bytes(1)


def test_start_tls_is_refused_while_somebody_reads(pair: Pair) -> None:
    near, _ = pair
    reader = parked(error_of, near.read_bytes, 1)
    with pytest.raises(ValueError, match="not idle"):
        near.start_tls()
    near.close()
    assert isinstance(reader.result(), StreamClosedError)


def test_connect_tells_that_nobody_listens() -> None:
    with stdsocket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(ConnectionRefusedError):
        stream.connect(address)


# ---- cut short


@pytest.mark.once
def test_a_connect_cut_short_at_any_park_leaves_nothing() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        settle()
        before = open_fds()
        server, client = certificates.server_context(), certificates.client_context(kind=ssl)
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            with listener:
                listener.settimeout(1)
                try:
                    peer = listener.accept()[0]
                    peer.settimeout(1)
                    with peer, server.wrap_socket(peer, server_side=True) as encrypted:
                        encrypted.recv(1)
                except OSError:
                    pass

        def connect() -> None:
            stream.connect(listener.getsockname(), ssl_options=client, server_hostname="localhost").close()

        dhaga.spawn(serve)
        return victim(connect), lambda: open_fds() <= before or pytest.fail("left open")

    assert cancel_at_every_park(scenario) >= 2


@pytest.mark.logs
def test_connect_with_the_wrong_certificate_closes() -> None:
    settle()
    before = open_fds()
    with stdsocket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as peer, pytest.raises(OSError):
                contexts()[0].wrap_socket(peer, server_side=True)

        serving = dhaga.spawn(dhaga.offload, serve)
        with pytest.raises(ssl.SSLError):
            stream.connect(listener.getsockname(), ssl_options=contexts()[1], timeout=10)
        serving.result()
    for _ in range(500):  # a callback of the loop may close the last one
        if open_fds() <= before:
            break
        dhaga.sleep(0.01)
    assert open_fds() <= before


def test_a_timeout_bounds_connect_and_start_tls_together() -> None:
    with stdsocket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(TimeoutError):
        stream.connect(listener.getsockname(), ssl_options=contexts()[1], timeout=0.02)
