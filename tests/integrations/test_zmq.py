"""pyzmq's sockets in dhagas, in plain threads and in coroutines, over tcp, inproc and ipc."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga.threading import Event
from tests.kit.scripts import PATIENCE, prints

zmq = pytest.importorskip("zmq")

from dhaga.integrations import zmq as integration  # noqa: E402
from dhaga.integrations.zmq import _poll  # noqa: E402
from dhaga.integrations.zmq._install import METHODS  # noqa: E402
from dhaga.integrations.zmq._poll import standard_poll  # noqa: E402

TRANSPORTS = ("tcp", "inproc", "ipc")


class Context(zmq.Context):  # type: ignore[name-defined]
    """A context whose sockets live until it is destroyed."""

    def socket(self, *args: Any, **options: Any) -> Any:
        sock = super().socket(*args, **options)
        self.__dict__.setdefault("kept", []).append(sock)
        return sock


@pytest.fixture
def context() -> Iterator[Any]:
    integration.install()
    context = Context()
    context.linger = 0
    yield context
    context.destroy(linger=0)
    integration.uninstall()


def bound(context: Any, kind: int, transport: str = "inproc", folder: Path | None = None) -> tuple[Any, str]:
    """Return a bound socket and its address."""
    sock = context.socket(kind)
    sock.bind({"tcp": "tcp://127.0.0.1:*", "ipc": f"ipc://{folder}/s", "inproc": f"inproc://{id(sock)}"}[transport])
    return sock, sock.last_endpoint.decode().rstrip("\0")


def connected(context: Any, kind: int, address: str) -> Any:
    sock = context.socket(kind)
    sock.connect(address)
    return sock


def pair(context: Any, first: int, second: int, transport: str = "inproc") -> tuple[Any, Any]:
    """Return two sockets that are connected."""
    one, address = bound(context, first, transport)
    return one, connected(context, second, address)


def in_dhaga(fn: Callable[[], Any]) -> Any:
    return dhaga.spawn(fn).result(PATIENCE)


def until_parked(d: Any) -> None:
    """Let a dhaga run until it is parked for a socket."""
    while "zmq" not in repr(d):
        dhaga.sleep(0.001)


# ---- send and recv


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_requests_wait_side_by_side(context: Any, transport: str, tmp_path: Path) -> None:
    count = 20

    def request(n: int) -> bytes:
        with connected(context, zmq.REQ, address) as sock:
            sock.send_json({"n": n})
            return sock.recv()

    def answer() -> None:
        # The first answer is sent when all requests have come, so that all clients wait at once.
        requests = [router.recv_multipart() for _ in range(count)]
        for peer, empty, body in requests:
            router.send_multipart([peer, empty, body.upper()])

    def fn() -> list[bytes]:
        clients = [dhaga.spawn(request, n) for n in range(count)]
        answer()
        return [client.result() for client in clients]

    router, address = bound(context, zmq.ROUTER, transport, tmp_path)
    assert in_dhaga(fn) == [b'{"N": %d}' % n for n in range(count)]


def test_the_other_ways_to_send_and_receive_park_too(context: Any) -> None:
    def fn() -> list[Any]:
        one, two = pair(context, zmq.PAIR, zmq.PAIR)
        got: list[Any] = []

        def receive() -> None:
            got.extend([two.recv_string(), two.recv_json(), two.recv_pyobj(), two.recv_multipart(copy=False)])
            got.append(two.recv_serialized(lambda frames: frames[0]))
            if hasattr(two, "recv_into"):
                buffer = bytearray(3)
                got.append((two.recv_into(buffer), bytes(buffer)))

        d = dhaga.spawn(receive)
        for send in (
            lambda: one.send_string("text"),
            lambda: one.send_json([1]),
            lambda: one.send_pyobj({2}),
            lambda: one.send_multipart([b"a", b"b"]),
            lambda: one.send_serialized(b"c", lambda message: [message]),
            lambda: one.send(b"abc", copy=False, track=True),
        ):
            until_parked(d)
            send()
            dhaga.sleep(0)
        d.join()
        d.result()
        got[3] = [frame.bytes for frame in got[3]]
        return got

    expected: list[Any] = ["text", [1], {2}, [b"a", b"b"], b"c", (3, b"abc")]
    assert in_dhaga(fn) == expected[: 6 if hasattr(zmq.Socket, "recv_into") else 5]


@pytest.mark.parametrize("transport", ("tcp", "inproc"))
def test_a_send_parks_while_the_pipe_is_full(context: Any, transport: str) -> None:
    def fn() -> tuple[bool, int]:
        pull = context.socket(zmq.PULL)
        pull.rcvhwm = 1
        pull.bind("tcp://127.0.0.1:*" if transport == "tcp" else "inproc://full")
        push = context.socket(zmq.PUSH)
        push.sndhwm = 1
        push.connect(pull.last_endpoint)
        body = b"x" * 100_000

        def flood() -> None:
            for _ in range(200):
                push.send(body)

        d = dhaga.spawn(flood)
        until_parked(d)
        waited = d.is_alive()
        received = sum(len(pull.recv()) for _ in range(200)) // len(body)
        d.result()
        return waited, received

    assert in_dhaga(fn) == (True, 200)


def test_a_send_without_a_peer_parks_until_one_comes(context: Any) -> None:
    def fn() -> bytes:
        push, address = bound(context, zmq.PUSH)
        d = dhaga.spawn(push.send, b"first")
        until_parked(d)
        pull = connected(context, zmq.PULL, address)
        message: bytes = pull.recv()
        d.result()
        return message

    assert in_dhaga(fn) == b"first"


def test_a_router_that_is_always_writable_parks_for_a_peer_whose_pipe_is_full(context: Any) -> None:
    def fn() -> tuple[int, int]:
        router = context.socket(zmq.ROUTER)
        router.sndhwm, router.router_mandatory = 1, True
        router.bind("inproc://router")
        slow, other = context.socket(zmq.DEALER), context.socket(zmq.DEALER)
        for sock, name in ((slow, b"slow"), (other, b"other")):
            sock.rcvhwm, sock.identity = 1, name
            sock.connect("inproc://router")
            sock.send(b"hello")
            assert router.recv_multipart() == [name, b"hello"]

        def flood() -> None:
            for n in range(20):
                router.send_multipart([b"slow", b"%d" % n])

        d = dhaga.spawn(flood)
        until_parked(d)
        switches = 0
        for _ in range(50):
            dhaga.sleep(0)
            switches += "zmq" not in repr(d)
        got = [int(slow.recv()) for _ in range(20)]
        d.result()
        assert got == list(range(20))
        return switches, len(got)

    assert in_dhaga(fn) == (0, 20)


def test_a_dhaga_that_only_sends_does_not_take_the_wake_of_one_that_receives(context: Any) -> None:
    """The edge of the fd is lost to a ``send``, which processes what has come: it passes the wake on."""

    def fn() -> int:
        dealer, address = bound(context, zmq.DEALER, "tcp")
        got: list[bytes] = []

        def receive() -> None:
            for _ in range(300):
                got.append(dealer.recv())

        def echo() -> None:
            with connected(context, zmq.DEALER, address) as sock:
                for _ in range(300):
                    sock.send(sock.recv())

        # The echo runs in an OS thread of its own, so that answers come at any point of the sender's run.
        thread = threading.Thread(target=echo)
        thread.start()
        d = dhaga.spawn(receive)
        for n in range(300):
            dealer.send(b"%d" % n)
            dealer.get(zmq.EVENTS)
            if n % 7 == 0:
                dhaga.sleep(0)
        d.result(PATIENCE)
        thread.join()
        return len(set(got))

    assert in_dhaga(fn) == 300


@pytest.mark.parametrize("look", ("send", "events", "poll", "connect", "noblock"))
def test_whatever_looks_wakes_the_waiters_of_the_socket(context: Any, look: str) -> None:
    def fn() -> bytes:
        one, two = pair(context, zmq.DEALER, zmq.DEALER)
        d = dhaga.spawn(one.recv)
        until_parked(d)
        two.send(b"message")
        # The hub has not run since: the signal is still there, and this takes it.
        {
            "send": lambda: one.send(b""),
            "events": lambda: one.getsockopt(zmq.EVENTS),
            "poll": lambda: one.poll(0),
            "connect": lambda: one.connect("inproc://nowhere"),
            "noblock": lambda: one.send(b"", zmq.NOBLOCK),
        }[look]()
        return d.result(PATIENCE)

    assert in_dhaga(fn) == b"message"


def test_dhagas_that_share_a_socket_get_a_message_each(context: Any) -> None:
    def fn() -> list[int]:
        pull, address = bound(context, zmq.PULL)
        dhagas = [dhaga.spawn(pull.recv) for _ in range(20)]
        until_parked(dhagas[-1])
        with connected(context, zmq.PUSH, address) as push:
            for n in range(20):
                push.send(b"%d" % n)
            return sorted(int(d.result(PATIENCE)) for d in dhagas)

    assert in_dhaga(fn) == list(range(20))


def test_one_that_receives_without_end_lets_others_run(context: Any) -> None:
    def fn() -> bool:
        one, two = pair(context, zmq.PAIR, zmq.PAIR)
        stopped = False

        def flood() -> None:
            while not stopped:
                one.send_multipart([b"a", b"b"])
                assert two.recv_multipart() == [b"a", b"b"]

        d = dhaga.spawn(flood)
        dhaga.sleep(0.01)
        stopped = True
        d.result(PATIENCE)
        return True

    assert in_dhaga(fn)


# ---- timeouts, cancels, the end


def test_the_timeouts_of_the_socket_hold(context: Any) -> None:
    def fn() -> None:
        sock = context.socket(zmq.DEALER)
        sock.rcvtimeo = sock.sndtimeo = 30
        with pytest.raises(zmq.Again):
            sock.recv()
        with pytest.raises(zmq.Again):
            sock.send(b"")
        sock.rcvtimeo = 0
        with pytest.raises(zmq.Again):
            sock.recv()
        with pytest.raises(zmq.Again):
            sock.recv(zmq.NOBLOCK)
        assert sock.poll(30) == 0

    in_dhaga(fn)


@pytest.mark.parametrize("wait", ("recv", "send", "poll", "poller", "select", "proxy"))
def test_a_timeout_or_a_cancel_ends_each_wait_and_leaves_the_socket_usable(context: Any, wait: str) -> None:
    def fn() -> None:
        one, address = bound(context, zmq.DEALER)
        poller = zmq.Poller()
        poller.register(one, zmq.POLLIN)
        calls: dict[str, Callable[[], Any]] = {
            "recv": one.recv,
            "send": lambda: one.send(b""),
            "poll": one.poll,
            "poller": poller.poll,
            "select": lambda: zmq.select([one], [], []),
            "proxy": lambda: zmq.proxy(one, context.socket(zmq.DEALER)),
        }
        with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
            calls[wait]()
        d = dhaga.spawn(calls[wait])
        until_parked(d)
        d.cancel()
        with pytest.raises(dhaga.Cancelled):
            d.result()
        two = connected(context, zmq.DEALER, address)
        two.send(b"after")
        assert one.recv() == b"after"

    in_dhaga(fn)


@pytest.mark.parametrize("wait", ("recv", "poll"))
def test_closing_a_socket_wakes_its_waiters(context: Any, wait: str) -> None:
    def fn() -> None:
        sock = context.socket(zmq.PULL)
        d = dhaga.spawn(getattr(sock, wait))
        until_parked(d)
        sock.close()
        with pytest.raises(zmq.ZMQError) as caught:
            d.result()
        assert caught.value.errno == zmq.ENOTSOCK

    in_dhaga(fn)


def test_term_ends_the_waits_and_parks_until_the_sockets_are_closed(context: Any) -> None:
    def fn() -> None:
        context, may_close = zmq.Context(), Event()

        def serve(kind: int) -> None:
            with context.socket(kind) as sock:
                with pytest.raises(zmq.ContextTerminated):
                    sock.recv() if kind == zmq.PULL else zmq.proxy(sock, sock)
                may_close.wait()

        servers = [dhaga.spawn(serve, kind) for kind in (zmq.PULL, zmq.DEALER)]
        for server in servers:
            until_parked(server)
        with pytest.raises(TimeoutError), dhaga.Timeout(0.05):
            context.term()  # goes on by itself, and the next one waits for that
        d = dhaga.spawn(context.term)
        dhaga.sleep(0.01)
        assert d.is_alive() and not context.closed
        may_close.set()
        d.result(PATIENCE)
        assert context.closed
        for server in servers:
            server.result()

    in_dhaga(fn)


def test_a_context_that_is_collected_ends_without_parking(context: Any) -> None:
    def fn() -> None:
        with pytest.warns(ResourceWarning), dhaga.no_park():
            zmq.Context()

    in_dhaga(fn)


# ---- polling


def test_a_poller_waits_for_sockets_and_fds_together(context: Any) -> None:
    def fn() -> None:
        one, two = pair(context, zmq.PAIR, zmq.PAIR)
        ours, theirs = socket.socketpair()
        poller = zmq.Poller()
        poller.register(one, zmq.POLLIN)
        poller.register(ours, zmq.POLLIN)
        with ours, theirs:
            for send, ready in (
                (lambda: two.send(b"1"), one),
                (lambda: theirs.send(b"2"), ours.fileno()),
                (lambda: two.send(b"3"), one),
            ):
                d = dhaga.spawn(poller.poll)
                until_parked(d)
                send()
                assert d.result(PATIENCE) == [(ready, zmq.POLLIN)]
                one.recv() if ready is one else ours.recv(1)
            assert poller.poll(10) == []
            assert dict(zmq.zmq_poll([(one, zmq.POLLOUT), (ours, zmq.POLLOUT)], 1000))[one] == zmq.POLLOUT
            theirs.close()
            assert ours.fileno() in dict(poller.poll())

    in_dhaga(fn)


def test_twenty_pollers_wait_at_once_also_for_one_socket(context: Any) -> None:
    def fn() -> None:
        pairs = [pair(context, zmq.PAIR, zmq.PAIR) for _ in range(20)]
        dhagas = [dhaga.spawn(one.poll) for one, _ in pairs] + [dhaga.spawn(pairs[0][0].poll) for _ in range(20)]
        for d in dhagas:
            until_parked(d)
        for _, two in pairs:
            two.send(b"")
        assert [d.result(PATIENCE) for d in dhagas] == [zmq.POLLIN] * 40

    in_dhaga(fn)


def test_one_that_polls_in_a_loop_lets_others_run(context: Any) -> None:
    def fn() -> bool:
        sock, stopped = context.socket(zmq.PULL), False

        def poll() -> None:
            while not stopped:
                sock.poll(0)

        d = dhaga.spawn(poll)
        dhaga.sleep(0.01)
        stopped = True
        d.result(PATIENCE)
        return True

    assert in_dhaga(fn)


def test_what_comes_while_a_poll_looks_for_other_waiters_is_not_lost(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def fn() -> int:
        one, two = pair(context, zmq.PAIR, zmq.PAIR)

        def poll_and_send(items: Any, timeout: int) -> Any:
            nonlocal calls
            calls += 1
            found = standard_poll(items, timeout)
            if calls == 2:  # the one before the park
                two.send(b"")
            return found

        monkeypatch.setattr(_poll, "standard_poll", poll_and_send)
        return one.poll()

    assert in_dhaga(fn) == zmq.POLLIN
    assert calls == 3


# ---- proxies


def test_a_proxy_forwards_both_ways_and_to_its_capture(context: Any) -> None:
    def fn() -> None:
        frontend, front = bound(context, zmq.ROUTER, "tcp")
        backend, back = bound(context, zmq.DEALER)
        capture, tap = pair(context, zmq.PUSH, zmq.PULL)

        def work() -> None:
            with connected(context, zmq.REP, back) as sock:
                while True:
                    sock.send(sock.recv() + b"!")

        def request(n: int) -> bytes:
            with connected(context, zmq.REQ, front) as sock:
                sock.send(b"%d" % n)
                return sock.recv()

        helpers = [dhaga.spawn(zmq.proxy, frontend, backend, capture), *(dhaga.spawn(work) for _ in range(3))]
        clients = [dhaga.spawn(request, n) for n in range(20)]
        assert [client.result(PATIENCE) for client in clients] == [b"%d!" % n for n in range(20)]
        assert sorted(tap.recv_multipart()[-1] for _ in range(40)) == sorted(
            b"%d%s" % (n, end) for n in range(20) for end in (b"", b"!")
        )
        for d in helpers:
            d.cancel()
            d.join()

    in_dhaga(fn)


def test_a_proxy_takes_nothing_that_it_cannot_pass_on(context: Any) -> None:
    def fn() -> None:
        pull, address = bound(context, zmq.PULL)
        push = context.socket(zmq.PUSH)
        source = connected(context, zmq.PUSH, address)
        d = dhaga.spawn(zmq.proxy, pull, push)  # push has no peer
        source.send(b"kept")
        until_parked(d)
        assert pull.poll(30_000)
        d.cancel()
        d.join()
        assert pull.recv() == b"kept"

    in_dhaga(fn)


@pytest.mark.skipif(not hasattr(zmq, "proxy_steerable"), reason="this libzmq has none")
def test_a_steerable_proxy_runs_in_an_os_thread_until_it_is_told_to_end(context: Any) -> None:
    def fn() -> None:
        pull, address = bound(context, zmq.PULL)
        push, end = bound(context, zmq.PUSH)
        control, remote = pair(context, zmq.PAIR, zmq.PAIR)
        d = dhaga.spawn(zmq.proxy_steerable, pull, push, None, control)
        with connected(context, zmq.PUSH, address) as source, connected(context, zmq.PULL, end) as sink:
            source.send(b"through")
            assert sink.recv() == b"through"
            remote.send(b"TERMINATE")
            d.result(PATIENCE)

    in_dhaga(fn)


# ---- where it is called from


def test_plain_threads_coroutines_and_two_schedulers_use_it_at_once(context: Any) -> None:
    ends = [pair(context, zmq.PAIR, zmq.PAIR) for _ in range(3)]
    results: list[bytes] = []

    def serve(sock: Any) -> None:
        sock.send(sock.recv() + b"!")

    async def main() -> None:
        results.append(ends[0][0].recv())  # in a coroutine it blocks, as without us

    def plain() -> None:
        ends[0][1].send(b"coroutine")
        serve(ends[1][0])

    def scheduler(sock: Any) -> None:
        dhaga.spawn(serve, sock).result(PATIENCE)

    threads = [threading.Thread(target=plain), threading.Thread(target=scheduler, args=[ends[2][0]])]
    for thread in threads:
        thread.start()
    asyncio.run(main())

    def fn() -> None:
        dhagas = []
        for _, sock in ends[1:]:
            sock.send(b"ping")
            dhagas.append(dhaga.spawn(sock.recv))
        results.extend(d.result(PATIENCE) for d in dhagas)

    in_dhaga(fn)
    for thread in threads:
        thread.join()
    assert results == [b"coroutine", b"ping!", b"ping!"]


def test_a_socket_is_handed_from_one_thread_to_another(context: Any) -> None:
    one, two = pair(context, zmq.PAIR, zmq.PAIR)

    def receive() -> bytes:
        d = dhaga.spawn(one.recv)
        dhaga.sleep(0.01)
        two.send(b"message")
        return d.result(PATIENCE)

    got: list[bytes] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: got.append(in_dhaga(receive)))
        thread.start()
        thread.join()
        got.append(in_dhaga(receive))
    assert got == [b"message"] * 6


def test_the_asynchronous_sockets_stay_as_they_are(context: Any) -> None:
    import zmq.asyncio as asynchronous

    async def main() -> list[bytes]:
        with asynchronous.Context() as own:
            one, two = own.socket(zmq.PAIR), own.socket(zmq.PAIR)
            one.bind("inproc://asynchronous")
            two.connect("inproc://asynchronous")
            with one, two:
                await two.send(b"message")
                return await one.recv_multipart()

    assert asyncio.run(main()) == [b"message"]


def test_uninstall_restores_pyzmq() -> None:
    before = [vars(kind).get(name) for kind, names in METHODS.items() for name in names], zmq.zmq_poll
    integration.install()
    integration.install()
    assert zmq.Socket.recv is not before[0][0] and zmq.zmq_poll is not before[1]
    integration.uninstall()
    after = [vars(kind).get(name) for kind, names in METHODS.items() for name in names], zmq.zmq_poll
    assert before == after
    assert "recv" not in vars(zmq.Socket)


def test_a_threaded_program_runs_unchanged() -> None:
    code = """
        import dhaga.monkey; dhaga.monkey.patch()
        import threading, zmq
        from zmq.devices import ThreadDevice

        context = zmq.Context.instance()
        device = ThreadDevice(zmq.QUEUE, zmq.ROUTER, zmq.DEALER)
        device.context_factory = lambda: context
        device.bind_in("inproc://front")
        device.bind_out("inproc://back")
        device.start()

        def serve():
            with context.socket(zmq.REP) as sock:
                sock.connect("inproc://back")
                for _ in range(5):
                    sock.send(sock.recv() + b"!")

        def ask(n):
            with context.socket(zmq.REQ) as sock:
                sock.connect("inproc://front")
                sock.send_string(str(n))
                answers.append(sock.recv_string())

        answers = []
        threads = [threading.Thread(target=serve) for _ in range(4)]
        threads += [threading.Thread(target=ask, args=[n]) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(len(set(answers)))
        context.term()
        device.join()
        print("ended")
    """
    assert prints(code) == ["20", "ended"]
