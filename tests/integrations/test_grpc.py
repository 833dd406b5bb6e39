"""gRPC in patched programs: many dhagas on one channel, streams, deadlines and cancels, and a server of dhagas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.scripts import prints

pytest.importorskip("grpc", exc_type=ImportError)

SERVER = str(Path(__file__).with_name("grpcs.py"))

CLIENT = """
    import dhaga.monkey
    dhaga.monkey.patch()
    import threading
    import dhaga, grpc
    channel = grpc.insecure_channel("127.0.0.1:{port}")
    came, echo, gather, hang, left, fail, whoami = (channel.unary_unary("/test/" + name)
        for name in ("came", "echo", "gather", "hang", "left", "fail", "whoami"))
    count = channel.unary_stream("/test/count")
    total = channel.stream_unary("/test/total")
    chat = channel.stream_stream("/test/chat")
"""
END = """
    channel.close()
    while threading.active_count() > 1:  # grpcio's own threads end
        dhaga.sleep(0.001)
"""


@pytest.fixture(scope="module", params=["plain", "patched"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Serve in another process, by OS threads and by dhagas."""
    command = [sys.executable, *(["-m", "dhaga"] if request.param == "patched" else []), SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.communicate()
    assert server.returncode == 0


def said(port: int, code: str) -> list[str]:
    """Return what a client prints."""
    return prints(CLIENT.format(port=port) + code + END)


def test_blocking_calls_of_many_dhagas_share_a_channel(port: int) -> None:
    code = """
    answers = []
    threads = [threading.Thread(target=lambda n=n: answers.append(gather(b"%d" % n))) for n in range(40)]
    for each in threads: each.start()
    for each in threads: each.join()
    print(sorted(map(int, answers)) == list(range(40)), whoami(b"", metadata=[("user", "alice")]))
    print(len({each.result() for each in [echo.future(b"%d" % n) for n in range(40)]}))
    """
    assert said(port, code) == ["True b'alice'", "40"]


def test_streams_go_both_ways(port: int) -> None:
    code = """
    from queue import Queue
    print(sum(map(int, count(b"100"))), total(iter([b"1", b"2"])))
    questions = Queue()
    answers = chat(iter(questions.get, None))
    said = []
    for word in (b"a", b"b", b"c"):
        questions.put(word)
        said.append(next(answers))
    questions.put(None)
    print(said, list(answers), answers.code())
    """
    assert said(port, code) == ["4950 b'3'", "[b'a!', b'b!', b'c!'] [] StatusCode.OK"]


def test_deadlines_and_errors_reach_the_caller(port: int) -> None:
    code = """
    for call in (lambda: hang(b"", timeout=0.05), lambda: fail(b""), lambda: hang.future(b"", timeout=0.05).result()):
        try:
            call()
        except grpc.RpcError as error:
            print(error.code().name)
    """
    assert said(port, code) == ["DEADLINE_EXCEEDED", "NOT_FOUND", "DEADLINE_EXCEEDED"]


def test_a_cancel_of_a_dhaga_cancels_its_call(port: int) -> None:
    code = """
    future = hang.future(b"future")
    for name, call in (b"call", lambda: hang(b"call")), (b"future", future.result):
        caller = dhaga.spawn(call)
        print(came(name))
        caller.cancel()
        try:
            caller.result()
        except dhaga.Cancelled:
            print("cancelled")
    print(left(b"call"), future.done(), future.cancel(), future.cancelled(), left(b"future"))
    try:
        with dhaga.Timeout(0.05):
            hang(b"timed")
    except TimeoutError:
        print("timed out", left(b"timed"))
    """
    cancelled = ["b'came'", "cancelled"]
    assert said(port, code) == [*cancelled, *cancelled, "b'left' False True True b'left'", "timed out b'left'"]


def test_cancels_at_any_moment_leave_the_channel_whole(port: int) -> None:
    code = """
    calls = [lambda: echo(b""), lambda: list(chat(iter([b"a"] * 5))), lambda: list(count(b"9")), lambda: hang(b"")]
    for turns in range(60):
        callers = [dhaga.spawn(call) for call in calls]
        for _ in range(turns):
            dhaga.sleep(0)
        if turns % 2:
            echo(b"")  # so that answers are under way as well
        for each in callers:
            each.cancel()
        for each in callers:
            each.join()
    print(echo(b"whole"), list(chat(iter([b"a"]))))
    """
    assert said(port, code) == ["b'whole' [b'a!']"]


def test_an_open_channel_does_not_hold_up_the_end(port: int) -> None:
    assert prints(CLIENT.format(port=port) + "    call = hang.future(b'')\n    print(echo(b'end'))") == ["b'end'"]


def test_unpatched_it_is_grpc_s_own_again() -> None:
    code = """
    import dhaga.monkey
    from grpc._cython import cygrpc
    own = cygrpc.Channel, cygrpc.CompletionQueue, cygrpc.async_callback_func, cygrpc.init_grpc_gevent
    dhaga.monkey.patch()
    import grpc, sys
    import grpc.experimental.gevent as support
    support.init_gevent()
    print(cygrpc.Channel.__module__, cygrpc.g_gevent_activated, "gevent" in sys.modules)
    dhaga.monkey.unpatch()
    print(own == (cygrpc.Channel, cygrpc.CompletionQueue, cygrpc.async_callback_func, cygrpc.init_grpc_gevent))
    """
    assert prints(code) == ["dhaga.integrations.grpc False False", "True"]
