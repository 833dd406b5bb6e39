"""The programs, as one starts them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import pytest

from tests.examples.kit import ROOT
from tests.examples.notifications.processes import serving


def run(module: str, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", f"examples.notifications.{module}", *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


@pytest.mark.parametrize(
    "kind", ["tcp", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sse", "websocket"))]
)
def test_the_client_program_tells_how_late_each_message_came(kind: str) -> None:
    with serving() as server:
        url = f"http://{server.lines}" if kind == "tcp" else server.url
        options = ["--clients", "50", "--messages", "3", "--rate", "50", "--kind", kind, "--url", url]
        found = run("client", *options, "--json")
    begun, report = map(json.loads, found.stdout.splitlines())
    assert (found.returncode, begun["connected"], report["delivered"], report["reconnects"]) == (0, 50, 150, 0)
    latency = report["latency"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


@pytest.mark.slow
def test_ctrl_c_ends_a_server_with_clients() -> None:
    with serving("--heartbeat", "0.1") as server:
        options = ["--clients", "5", "--kind", "sse", "--url", server.url, "--messages", "1"]
        assert run("client", *options).returncode == 0
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0


@pytest.mark.slow
def test_whatever_is_killed_no_message_is_lost() -> None:
    if not shutil.which("redis-server"):
        pytest.skip("no redis-server in PATH, which DHAGA_REDIS cannot stand in for")
    found = run("chaos", "--seconds", "5", "--listeners", "4", timeout=110)
    report = json.loads(found.stdout)
    assert (found.returncode, report["missing"], report["broken"]) == (0, 0, None), found.stdout
    assert report["taken"] > 20 and report["kills"]
