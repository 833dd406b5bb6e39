"""`python -m benchmarks.service`: the clients count right, each server is loaded, and what was measured is kept."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.machine import compiler
from benchmarks.samples import Sample
from benchmarks.service import report
from benchmarks.service.load import Load, load
from benchmarks.service.samples import Results, measure
from benchmarks.service.servers import GEVENT, GTHREAD, GUNICORN, SERVE, SERVICES

pytestmark = [pytest.mark.once, pytest.mark.skipif(compiler() is None, reason="the clients are for Linux, and in C")]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
LONG = 60.0
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """Give each request the next answer, one connection after the other; an empty one closes. Yields: the port."""
    left = list(answers)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it is shut down
                return
            with connection:
                while left and connection.recv(4096) and (answer := left.pop(0)):
                    connection.sendall(answer)
                while not left and connection.recv(4096):
                    pass  # until the client leaves

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def loaded(*answers: bytes) -> Load:
    with answering(*answers) as port:
        return load(port, 1, LONG, "/", answers=max(1, answers.count(OK)))


def test_a_client_counts_its_answers_and_asks_again() -> None:
    seen = loaded(OK, OK, OK)
    assert (seen["answers"], seen["failed"], seen["least"], seen["most"]) == (3, 0, 3, 3)
    assert seen["first"] > 0 and 0 < seen["p50"] <= seen["p99"] <= seen["max"] <= 1e6 * seen["seconds"]


def test_another_status_and_a_closed_connection_have_failed_and_the_client_goes_on() -> None:
    seen = loaded(OK, BUSY, OK, b"", OK)
    assert (seen["answers"], seen["failed"]) == (3, 2)


def test_a_client_without_any_answer_has_waited_all_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        seen = load(listener.getsockname()[1], 2, 0.2, "/")
    assert (seen["answers"], seen["failed"], seen["least"], seen["most"], seen["p50"]) == (0, 0, 0, 0, 0)
    assert seen["first"] == pytest.approx(seen["seconds"] * 1e6, rel=0.01)


def test_an_answer_of_unknown_length_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="without Content-Length"):
        loaded(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhi")


@pytest.mark.parametrize("server", [SERVE, GUNICORN, GTHREAD])
def test_a_server_is_loaded_and_what_it_costs_is_told(server: str) -> None:
    sample = measure(SERVICES["hello"], server, 5, 0.5)
    assert sample["failed"] == 0 and sample["by_cpu"] > 0 and sample["memory"] > 0


def sample(**given: float) -> Sample:
    names = (
        "rate",
        "by_cpu",
        "share",
        "first",
        "p50",
        "p90",
        "p99",
        "max",
        "least",
        "most",
        "failed",
        "client",
        "memory",
    )
    return {**dict.fromkeys(names, 1.0), **given}


def results(row: str, **servers: Sample) -> Results:
    return Results({"machine": "this"}, {row: {name: [each] for name, each in servers.items()}})


def test_a_slice_takes_the_place_of_its_own_rows_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "service.json"
    results("hello 100", granian=sample(rate=1.0)).save(path)
    results("flask 100", granian=sample(rate=2.0)).save(path)
    results("hello 100", granian=sample(rate=3.0)).save(path)
    kept = Results(**json.loads(path.read_text()))
    assert [*kept.samples] == ["flask 100", "hello 100"]  # in the order of the table
    assert [kept.of(row, "granian", "rate") for row in kept.samples] == [[2.0], [3.0]]


def test_rows_that_were_measured_elsewhere_are_not_mixed(tmp_path: Path) -> None:
    path = tmp_path / "service.json"
    results("hello 100", granian=sample()).save(path)
    other = Results({"machine": "another"}, results("flask 100", granian=sample()).samples)
    with pytest.raises(ValueError, match="measured elsewhere"):
        other.save(path)


def test_a_claim_that_is_missed_says_so() -> None:
    good = sample(rate=120.0, by_cpu=100.0, p50=10.0, p99=15.0, first=25.0, least=7.0, most=10.0, failed=0.0)
    found = {SERVE: good, GTHREAD: sample(rate=100.0, by_cpu=90.0), GEVENT: sample(rate=101.0, by_cpu=80.0)}
    told = {claim.what: claim.reached for claim in report.claims(results("django 300", **found))}
    assert told == {
        "Django, ORM, answers/s beside gunicorn gthread: 300 clients": True,
        "Django, ORM, answers a CPU second beside gunicorn gthread: 300 clients": False,
        "Django, ORM, answers/s beside gunicorn gevent: 300 clients": False,
        "Django, ORM, answers a CPU second beside gunicorn gevent: 300 clients": True,
        "Django, ORM, p99 beside p50: 300 clients": True,
        "Django, ORM, slowest first answer beside p50: 300 clients": True,
        "Django, ORM, least answers of a client beside the most: 300 clients": True,
        "Django, ORM, failed requests: 300 clients": True,
    }
    bad = sample(rate=120.0, p50=10.0, p99=15.2, first=25.2, least=6.0, most=10.0, failed=1.0)
    told = {claim.what: claim.reached for claim in report.claims(results("django 300", **{SERVE: bad}))}
    assert [*told.values()] == [False] * 4
