"""The head of an answer, which goes out with the beginning of its body."""

from __future__ import annotations

from dhaga.integrations._gunicorn_response import ResponseSocket


class Written:
    """A client's socket that keeps what was sent, call by call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.calls.append(bytes(data))


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def test_a_head_goes_out_with_the_beginning_of_its_body() -> None:
    client = Written()
    answer = ResponseSocket(client)
    for data in (HEAD, b"hello ", b"world"):
        answer.sendall(data)
    answer.flush()
    assert client.calls == [HEAD + b"hello ", b"world"]


def test_a_head_without_a_body_goes_out_in_the_end() -> None:
    client = Written()
    answer = ResponseSocket(client)
    answer.sendall(HEAD)
    assert client.calls == []
    answer.flush()
    assert client.calls == [HEAD]


def test_interim_answers_do_not_wait() -> None:
    client = Written()
    answer = ResponseSocket(client)
    hints = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    for data in (hints, hints, HEAD, b"hello"):
        answer.sendall(data)
    assert client.calls == [hints, hints, HEAD + b"hello"]


def test_a_large_body_is_not_copied() -> None:
    client = Written()
    answer = ResponseSocket(client)
    for data in (HEAD, bytes(100_000)):
        answer.sendall(data)
    assert client.calls == [HEAD, bytes(100_000)]


def test_whatever_else_is_done_with_the_socket_comes_after_the_head() -> None:
    client = Written()
    answer = ResponseSocket(client)
    answer.sendall(HEAD)
    assert answer.calls == [HEAD]
