"""The web app, in the three ways in which it is served."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

import dhaga
from examples.web import app, compare, servers
from tests.examples.kit import ROOT

SECONDS = 0.05  # that the backend takes


@pytest.fixture(scope="module")
def behind() -> Iterator[str]:
    """The backend's URL."""
    with servers.backend(SECONDS) as url:
        yield url


@pytest.mark.parametrize(
    "way", ["gunicorn", *(pytest.param(way, marks=pytest.mark.slow) for way in ("serve", "threads"))]
)
def test_each_way_answers_many_at_once(way: str, behind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "HEAD_START", 0.1)
    lines = list(compare.measured(way, [40, 20], behind))
    assert [line[:4] for line in lines] == [
        [way, what, str(count), str(count)] for count in (40, 20) for what in ("report", "news")
    ]
    assert all(float(line[-1]) > 10 for line in lines)


def test_news_reach_all_who_wait_and_those_who_come_later() -> None:
    board = app.Board()
    early = [dhaga.spawn(board.since, 0, 10) for _ in range(100)]
    dhaga.sleep()
    assert board.post("first") == 1
    assert [each.result() for each in early] == [["first"]] * 100
    assert board.since(0, 0) == ["first"]
    assert board.since(1, 0) == []


def test_what_is_not_answered_is_not_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    nobody = compare.batch(3, "/", port)
    assert nobody.cells()[:2] == ["3", "0"]
    assert len(compare.line(["", "", *nobody.cells(), "1"])) == len(compare.line(compare.HEAD))


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    command = [sys.executable, "-m", "examples.web", "serve", "--bind", place]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"BACKEND=http://127.0.0.1:")
        servers.wait_until_it_answers(process, f"http://{place}/")
        assert compare.ask(int(place.rpartition(":")[2]), "/report/3")
        os.killpg(process.pid, signal.SIGINT)  # what a terminal sends to all of them
        assert process.wait(30) == 0
