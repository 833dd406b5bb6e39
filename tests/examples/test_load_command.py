"""The command of the load tester: what it is told, against a server that is there, and how it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga.http.wsgi import Server
from examples.load import __main__ as command
from examples.load import options
from examples.load.scenarios import BadScenario, read
from tests.examples.kit import ROOT

pytestmark = pytest.mark.once


asked = threading.Event()
"""Set when somebody asks for a page."""


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    asked.set()
    start_response("503 Service Unavailable" if environ["PATH_INFO"] == "/busy" else "200 OK", [])
    return [b"hello"]


@pytest.fixture
def url() -> Iterator[str]:
    """A server in another OS thread, as the tester has the main one."""
    with dhaga.Scheduler("site") as scheduler:
        server = Server(app)
        scheduler.spawn(server.start).result()
        yield "http://{}:{}/".format(*server.address)
        server.stop(0)


@contextlib.contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-m", "examples.load", *map(str, arguments)]
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def scenario(folder: Path, code: str) -> Path:
    path = folder / "shop.py"
    path.write_text(textwrap.dedent(code))
    return path


# ---- what is told


def test_the_summary_and_the_json_tell_the_same(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.json"
    assert command.main([url, "--rate", "50", "--duration", "0.5s", "--json", str(path), "--quiet"]) == 0
    text, figures = capsys.readouterr().out, json.loads(path.read_text())
    assert "25 due, 25 passed, 0 failed (0% errors)" in text
    assert (figures["runs"]["due"], figures["runs"]["passed"], figures["errors"]) == (25, 25, 0)
    assert figures["requests"]["GET /"]["statuses"] == {"2xx": 25}
    assert figures["broken"] == []


@pytest.mark.parametrize(("bound", "status"), [("p99<1h", 1), ("p99>1h", 0), ("errors>50%", 1), ("rate<1", 0)])
def test_a_broken_bound_is_told_and_is_the_status(
    url: str, bound: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([f"{url}busy", "--rate", "20", "--duration", "0.2", "--quiet", "--fail-if", bound]) == status
    assert ("broken: " in capsys.readouterr().out) == bool(status)


# ---- scenarios


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shop.py", "names no function: write .*shop.py:FUNCTION \\(browse\\)"),
        ("shop.py:sell", "there is no sell in .*shop.py, but browse"),
        ("shop.py:later", "is a coroutine function"),
        ("shop.py:PRICE", "is no scenario"),
        ("shop.py:alone", "is no scenario"),
        ("shop.py:browse=much", "a weight is a number above 0"),
        ("shop.py:browse=0", "a weight is a number above 0"),
        ("mart.py:browse", "there is no file"),
    ],
)
def test_a_scenario_that_cannot_be_had_is_told(tmp_path: Path, text: str, said: str) -> None:
    scenario(tmp_path, "PRICE = 7\ndef browse(user): ...\nasync def later(user): ...\ndef alone(): ...")
    with pytest.raises(BadScenario, match=said):
        read([str(tmp_path / text)])
    with pytest.raises(BadScenario, match="there is no module nowhere"):
        read(["nowhere.at_all:browse"])


# ---- what cannot be


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("http://a/", "say how much: --rate N, --users N or --find BOUND"),
        ("http://a/ --rate 5 --users 5", "--users is another way"),
        ("http://a/ --rate 0", "it has to be above 0"),
        ("http://a/ --rate -5", "is not a number"),
        ("http://a/ --rate many", "'many' is not a number"),
        ("http://a/ --users 1.5", "not a whole number"),
        ("http://a/ --rate 5 --duration soon", "'soon' is not a duration"),
        ("http://a/ --rate 5 --duration 0s", "it has to be above 0"),
        ("http://a/ --rate 5 --pause 1s", "--pause is of --users"),
        ("http://a/ --users 5 --max-in-flight 9", "--max-in-flight is of --rate"),
        ("http://a/ --find p99=fast", "'fast' is not a duration"),
        ("http://a/ --find rate=5", "the rate is what is looked for"),
        ("http://a/ --find p99=5ms --duration 5s", "--find has steps"),
        ("http://a/ --rate 5 --step 5s", "--step is of --find"),
        ("http://a/ --rate 5 --fail-if p99=5ms", "no bound"),
        ("http://a/ --rate 5 --fail-if errors>5", "'5' is no percentage"),
        ("http://a/ --rate 5 --fail-if p101>5ms", "no bound"),
        ("http://a/ --rate 5 --json /nowhere/at/all", "there is no such folder"),
        ("localhost:8000 --rate 5", "write it like http://localhost:8000/"),
        ("http://a:port/ --rate 5", "is no URL"),
        ("ftp://a/ --rate 5", "is no URL of a web server"),
    ],
)
def test_what_does_not_go_together_is_told(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        options.read(arguments.split())
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_a_scenario_that_never_parks_is_told_and_ctrl_c_ends_it(url: str, tmp_path: Path) -> None:
    path = scenario(tmp_path, "def spin(user):\n    while True:\n        pass")
    with started(url, "--users", 1, "--scenario", f"{path}:spin") as process:
        assert process.stderr is not None
        assert "no other dhaga has run there" in process.stderr.readline()
        assert any("shop.py:" in line for line in process.stderr)
        for patience in (0.5, 10, 10):  # the first waits for a park
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break
    assert process.returncode == 130


def test_ctrl_c_ends_at_once_with_what_was_measured(url: str) -> None:
    asked.clear()
    with started(url, "--rate", 50, "--duration", "1h") as process:
        assert asked.wait(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "")
    assert "50 runs due a second for 3600 s, scenario get (interrupted)" in out
