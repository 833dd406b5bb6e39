"""Any cut of valid requests into segments gives the same requests; no garbage goes without an answer or an end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import dhaga
from dhaga import socket
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from tests.http.wire import TEXT, answers, chunked, get, parse, post, to_the_end

tokens = st.text("abcXYZ019-", min_size=1, max_size=8)
texts = st.text("ab ,;:=\t/é", max_size=10)
bodies = st.binary(max_size=60) | st.sampled_from([b"\r\n\r\n", b"0\r\n\r\n", get("/inner"), b"\r\n0\r\n\r\n" * 3])
fields = st.builds("X-{}: {}".format, tokens, texts)
requests = st.one_of(
    st.builds(lambda path, lines: (get(f"/{path}", *lines), path, b""), tokens, st.lists(fields, max_size=3)),
    st.builds(lambda path, body: (post(body, path=f"/{path}"), path, body), tokens, bodies),
    st.builds(
        lambda path, parts: (chunked(*filter(None, parts), path=f"/{path}"), path, b"".join(parts)),
        tokens,
        st.lists(bodies, max_size=4),
    ),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(requests, min_size=1, max_size=4), st.data())
def test_segments_make_no_difference(sent: list[tuple[bytes, str, bytes]], data: st.DataObject) -> None:
    stream = b"".join(raw for raw, _, _ in sent)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10).map(sorted))
    segments = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = [(raw.split()[0].decode(), f"/{path}", body) for raw, path, body in sent], ""
    assert parse(segments, Limits()) == expected
    assert parse([stream[n : n + 1] for n in range(len(stream))], Limits()) == expected


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    environ["wsgi.input"].read()
    start_response("200 OK", list(TEXT))
    return [b"ok"]


pieces = st.sampled_from(
    [
        get(),
        post(b"abc"),
        chunked(b"abc"),
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b" ",
        b":",
        b"Host: x\r\n",
        b"GET ",
        b"HTTP/1.1",
        b"0\r\n",
    ]
)


@settings(max_examples=50, deadline=None)
@given(st.lists(pieces | st.binary(max_size=20), max_size=8).map(b"".join))
def test_garbage_is_answered_or_the_connection_ends(data: bytes) -> None:
    near, far = socket.socketpair()
    with near, far:
        served = dhaga.spawn(Server(app).serve, near, "")
        far.sendall(data)
        far.shutdown(socket.SHUT_WR)
        served.result(30)
        near.close()
        statuses = [answer.status[:3] for answer in answers(to_the_end(far))]
    assert set(statuses[:-1]) <= {"200"} and set(statuses[-1:]) <= {"200", "400", "501", "505"}
