"""The soak of a night (``python -m tests.soak.night``): it is green, and it finds what is put in on purpose."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.scripts import ROOT
from tests.packages.test_packages import ADDRESSES
from tests.scenarios.test_asyncio_libraries import address_of
from tests.soak.ledger import Ledger
from tests.soak.machine import JUDGED, MB
from tests.soak.night.__main__ import main
from tests.soak.night.clients import Client
from tests.soak.night.record import ALLOWED, Record, Sample, read
from tests.soak.night.relay import Relay

pytestmark = [pytest.mark.once, pytest.mark.process]

HOURS = 6 / 3600

MISCHIEF = """
from tests.soak.night.site import app as right

def app(environ, start_response):
    if environ["PATH_INFO"].startswith("/later"):
        {mischief}
    return right(environ, start_response)
"""
WRONG = "environ['PATH_INFO'] += '0'"
FAILS = "raise RuntimeError('out of the blue')"
SAYS_AWAY = "start_response('503 Unavailable', []); return [b'away']"
PURPOSES = {
    "a wrong answer": (WRONG, "later: wrong answer, status 200"),
    "an error": (FAILS, "out of the blue"),
    "an outage that was none": (SAYS_AWAY, "later: wrong answer, status 503"),
}


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("flask", "psycopg", "psycopg2", "psycopg_pool", "redis", "sqlalchemy"):
        pytest.importorskip(package)
    for variable in ("DHAGA_POSTGRES", "DHAGA_REDIS"):
        monkeypatch.setenv(variable, address_of(variable, ADDRESSES[variable]))


@pytest.mark.usefixtures("services")
@pytest.mark.long("starts a service under an agent, and reloads it")
def test_six_seconds_of_it_are_green_and_are_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "night.jsonl"
    assert main(["--hours", str(HOURS), "--seed", "1", "--record", str(path)]) == 0, capsys.readouterr().out
    assert "seed 1, passed: " in capsys.readouterr().out
    record = read(path)
    assert {each.role for each in record.samples} == {"master", "worker"}
    assert {what for _, what, _ in record.events} == {"reload", "redis away", "postgres away"}
    assert record.about["right"] > 0 and record.about["failures"] == []
    pytest.importorskip("matplotlib")
    from tests.soak.night import chart

    chart.main(str(path), str(picture := tmp_path / "night.svg"))
    assert f"{record.about['right']:,} right answers, 0 failures" in capsys.readouterr().out
    assert all(label in picture.read_text() for label in ("dhagas", "redis away", "reload", "worker", "master"))


@pytest.mark.usefixtures("services")
@pytest.mark.long("starts a service under an agent")
@pytest.mark.parametrize("name", PURPOSES)
def test_what_is_put_in_on_purpose_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mischief, sign = PURPOSES[name]
    (tmp_path / "mischief.py").write_text(MISCHIEF.format(mischief=mischief))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    assert main(["--hours", "1", "--seed", "2", "--app", "mischief:app"]) == 1  # it ends by what it finds
    out = capsys.readouterr().out
    assert sign in out and "FAILED" in out


def test_the_page_tells_the_run_of_its_chart() -> None:
    results, page = ROOT / "benchmarks/results", (ROOT / "docs/howto/operate.md").read_text()
    record = read(results / "soak_night.jsonl")
    assert record.about["failures"] == []
    outages = sum(what.endswith("away") for _, what, _ in record.events)
    told = f"{record.about['right']:,} right answers", f"{record.about['ran'] / 60:.0f} minutes", f"{outages} outages"
    assert all(words in page for words in told), told
    assert told[0] in (results / "soak_night.svg").read_text()


# ---- the relay


@pytest.fixture
def echo() -> Iterator[int]:
    """An echo server on a thread for each connection. Gives: its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer(sock: socket.socket) -> None:
            with sock:
                try:
                    while data := sock.recv(1000):
                        sock.sendall(data)
                except ConnectionResetError:
                    pass

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def test_a_relay_passes_all_on_and_cuts_it_off_and_comes_back(echo: int) -> None:
    relay = Relay(f"redis://127.0.0.1:{echo}/0", "echo")
    relay.start()
    assert relay.url == f"redis://127.0.0.1:{relay.port}/0"
    with socket.create_connection(("127.0.0.1", relay.port)) as sock:
        sock.sendall(b"hello")
        assert sock.recv(5) == b"hello"
        assert not relay.was_away(relay_time := 0.0)
        relay.restart(0.01)
        assert relay.was_away(relay_time)
        with pytest.raises(ConnectionResetError):
            sock.recv(5)
    with socket.create_connection(("127.0.0.1", relay.port)) as sock:
        sock.sendall(b"hello" * 100_000)
        sock.shutdown(socket.SHUT_WR)
        come = 0
        while data := sock.recv(65_536):
            come += len(data)
        assert come == 500_000
    relay.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", relay.port))


# ---- verdicts


def test_a_503_is_an_answer_only_while_its_service_may_be_away() -> None:
    relay = Relay("redis://127.0.0.1:1/0", "redis")
    ledger = Ledger()
    client = Client(("127.0.0.1", 1), {"redis": relay, "postgres": relay}, ledger, "1")
    client.request = lambda method, path, body=None: (503, b"away")
    client.choose.choice = lambda views: "redis"
    relay.outages.append((0.0, float("inf")))
    client.ask_for_digest()
    assert not ledger.failures
    relay.outages[-1] = (0.0, 1.0)  # long ago
    client.ask_for_digest()
    assert ledger.failures[0].what.startswith("redis: wrong answer, status 503")
    relay.loop.close()


@pytest.mark.parametrize("quantity", ALLOWED)
def test_what_grows_in_the_calm_half_is_told(quantity: str) -> None:
    def verdicts(growth: float, seconds: float = 600) -> list[str]:
        record = Record()
        for moment in range(int(seconds)):
            has = {"memory": 80 * MB, "fds": 20, "threads": 2, "dhagas": 10}
            has[quantity] += int(growth * moment / seconds)
            record.samples.append(Sample(moment, 7, "worker", **has))
        return record.verdicts({7}, 0, seconds)

    assert verdicts(0) == []
    assert verdicts(ALLOWED[quantity] * 2) == []
    (told,) = verdicts(ALLOWED[quantity] * 6 + 6)
    assert told.startswith(f"{quantity} of process 7 is not flat: +")
    assert verdicts(ALLOWED[quantity] * 6 + 6, JUDGED - 1) == []


@pytest.mark.parametrize("arguments", [["--hours", "nan"], ["--hours", "0"]])
def test_a_mistake_in_the_arguments_is_told(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "error: " in capsys.readouterr().err
