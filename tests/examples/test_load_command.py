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
